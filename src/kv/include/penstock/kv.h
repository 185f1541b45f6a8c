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

// Makes a copy of an open database, as it is now, in the directory `path`, which does not exist:
// all that was committed before the call is in it. It is there whole or not at all, for its owner
// alone, and is opened like any other. Tables are links to those of the database, so that both are
// on one file system, and the copy keeps them; the log is copied. `kv` goes on meanwhile. Thread
// safe; blocks. Nothing keeps the copy over a power cut. not_supported if `kv` is not
// open_rocksdb()'s; what the database itself says if it takes no commits at the moment.
Outcome<void> make_checkpoint(engine::Kv& kv, const std::string& path);

// For tests, benchmarks and throw-away nodes. submit() runs on one worker thread.
std::unique_ptr<engine::Kv> make_memory_kv();

}  // namespace penstock::kv
