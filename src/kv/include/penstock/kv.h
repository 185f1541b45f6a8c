// engine::Kv for real: RocksDB embedded in the process, and a map in memory.
#pragma once

#include <memory>
#include <string>

#include "penstock/engine.h"

namespace penstock::kv {

struct RocksDbOptions {
  std::string path;        // a directory of its own
  bool create = false;     // make the database if the directory is missing or empty
  bool read_only = false;  // writing transactions end with Code::read_only
  int worker_threads = 2;  // they execute submit()ed operations
  size_t block_cache_bytes = 64 * kMiB;
  size_t write_buffer_bytes = 32 * kMiB;  // of one; two may exist, and one of history
};

// Opens or creates the database. Nothing is ever re-created or dropped silently: a directory that
// is not empty but is no intact database is refused and left as it is. A torn end of the log after
// a kill or a power cut is cut off; a log that lost what was synced is refused.
//
// The returned Kv must be destroyed after the loops that its operations complete on have stopped
// submitting; operations still queued then end with closed.
Outcome<std::unique_ptr<engine::Kv>> open_rocksdb(RocksDbOptions options);

// For tests, benchmarks and throw-away nodes. submit() runs on one worker thread.
std::unique_ptr<engine::Kv> make_memory_kv();

}  // namespace penstock::kv
