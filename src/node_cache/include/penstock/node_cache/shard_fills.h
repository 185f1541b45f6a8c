// One shard's part in filling the node cache: it reads extents into slots, a bounded number at a
// time, for rings that asked for it and for extents that are read again and again.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "penstock/arena.h"
#include "penstock/client.h"
#include "penstock/node_cache/limits.h"

namespace penstock::node_cache {

class NodeCache;
class ShardFills;

// A ring's request to fill a range of a file into its class's segment. `transferred` says at the
// end how many bytes of the range are there.
struct FillRequest : client::IoOp {
  struct {
    bool only_look = false;  // set by the ring: count what is there, fill nothing
    std::shared_ptr<arena::Segment> segment;
    uint32_t next = 0;  // extents [next, end) are yet to be asked for
    uint32_t end = 0;
    uint32_t under_way = 0;
    bool waiting = false;  // in the queue
    Status ending;         // why it ends early
  } fill;
};

// One extent on its way into a slot. Begins on the shard, goes to the cache's thread for a slot,
// comes back to be read, goes there again to be published, and ends on the shard.
struct FillOp : client::IoOp {
  ShardFills* home = nullptr;
  FillRequest* request = nullptr;  // null: no request waits for it
  std::shared_ptr<arena::Segment> segment;
  arena::Extent extent;
  uint32_t following = 0;     // extents of the same request behind this one
  arena::Segment::Fill slot;  // once it has one
  Status outcome;
};

// Owner thread of the loop only.
class ShardFills {
 public:
  ShardFills(NodeCache& cache, engine::Loop& loop, client::Client& client);
  // After drain().
  ~ShardFills();

  engine::Loop& loop() { return loop_; }

  // Completes in a later turn. The file is open for reading.
  void submit(FillRequest& request, const std::shared_ptr<arena::Segment>& segment);
  // Asks for an early end.
  void cancel(FillRequest& request);

  // A ring has read [offset, offset + length) of a file from a disk. What was read before is filled
  // in the background if there is nothing better to do.
  void note_read(const std::shared_ptr<arena::Segment>& segment, InodeId inode, uint64_t offset,
                 uint64_t length);
  // Reads and writes that rings have under way: fills stand back.
  void other_begun() { ++others_; }
  void other_ended() {
    ASSERT(others_ > 0);
    --others_;
  }

  // From the cache's thread, by way of the loop: the operation has its slot, or has ended.
  void read(FillOp& op);
  void ended(FillOp& op);

  // Completes `done` once no fill is under way. Nothing may be submitted any more.
  void drain(engine::Op& done);

 private:
  uint32_t most() const {
    return others_ > limits::kOthersMax ? limits::kFillsMaxBesideOthers : limits::kFillsMax;
  }
  void begin(const std::shared_ptr<arena::Segment>& segment, arena::Extent extent,
             FillRequest* request, uint32_t following);
  void pump();
  void leave_queue(FillRequest& request);
  // Once for each request, when nothing is under way for it.
  void finish(FillRequest& request);

  NodeCache& cache_;
  engine::Loop& loop_;
  client::Client& client_;
  std::array<FillOp, limits::kFillsMax> pool_;
  IntrusiveList<engine::Op> free_;
  uint32_t under_way_ = 0;
  uint32_t others_ = 0;
  IntrusiveList<engine::Op> waiting_;  // FillRequests
  engine::Op* drained_ = nullptr;
};

}  // namespace penstock::node_cache
