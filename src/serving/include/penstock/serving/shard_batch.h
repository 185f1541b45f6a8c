// Reads and writes of many files for one control request, on one shard: between the files and the
// session's regions, as its rings would do it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "penstock/serving/shard_share.h"

namespace penstock::serving {

class ShardBatch;

// `file`, `kind`, `offset` and `memory.length` are set by the request that makes it. The status
// says how it ended.
struct FileOp : node_cache::FillRequest {
  ShardBatch* batch = nullptr;
  bool fills = false;  // goes into the node cache, and to no region
  bool noted = false;  // the cache has been told that it is read
  uint32_t region = 0;
  uint64_t region_offset = 0;
  size_t number = 0;  // in the request
};

// Made anywhere; start() and what follows in the thread of the share's loop.
class ShardBatch {
 public:
  ShardBatch(ShardShare& share, std::deque<FileOp>& ops) : share_(share), ops_(ops) {}

  // Completes `done` when all have ended.
  void start(engine::Op& done);

 private:
  void pump();
  bool begin(FileOp& op);
  bool begin_fill(FileOp& op);
  void finish(FileOp& op);

  ShardShare& share_;
  std::deque<FileOp>& ops_;
  size_t next_ = 0;
  uint32_t in_flight_ = 0;
  engine::Op* done_ = nullptr;
};

}  // namespace penstock::serving
