// A ring, as the shard that serves it knows it, and its operations.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "penstock/serving.h"

namespace penstock::serving {

class ServedRing;

// One operation of a ring below the client library. Owned by its ring; reused, never allocated
// while the ring serves.
struct RingOp : node_cache::FillRequest {
  ServedRing* ring = nullptr;
  bool in_use = false;
  uint32_t lane = 0;
  uint32_t slot = 0;
  uint32_t sequence = 0;
  uint64_t user_data = 0;
  uint32_t file_id = 0;
  uint32_t region_id = 0;
  bool uses_region = false;
  uint32_t checksum_region_id = 0;
  bool uses_checksum_region = false;
  bool is_fill = false;
  telemetry::Kind figures_kind = telemetry::Kind::other;
  engine::Time begun;  // the turn in which it was taken from its ring
};

// Operations of one ring, in blocks that are made as it goes deeper than ever before, charged to
// its session, and given back to the kernel with the ring.
class OpPool {
 public:
  explicit OpPool(uint32_t most) : most_(most) {}
  ~OpPool();
  OpPool(const OpPool&) = delete;
  OpPool& operator=(const OpPool&) = delete;

  uint32_t size() const { return size_; }
  bool may_grow() const { return size_ < most_ && !refused_; }
  // More operations, as many again as there are; empty when there can be none for now. Those of the
  // first call are covered by what the ring itself is charged with.
  std::span<RingOp> grow(const std::shared_ptr<resources::Account>& account);
  // Growing may be tried again.
  void retry() { refused_ = false; }
  template <class Visit>
  void for_each(const Visit& visit) {
    for (Block& block : blocks_) {
      for (RingOp& op : block.ops) visit(op);
    }
  }

 private:
  struct Block {
    std::span<RingOp> ops;
    size_t bytes = 0;
    resources::Charge heap, mapping;
  };
  const uint32_t most_;
  uint32_t size_ = 0;
  bool refused_ = false;
  std::vector<Block> blocks_;
};

// Takes submissions from one ring, checks every field against the session, hands them to the
// shard's client and posts their completions.
class ServedRing {
 public:
  ServedRing(ShardShare& share, uint32_t id, const ring::Memory& memory,
             const resources::BusGuard* guard);

  uint32_t id() const { return id_; }
  bool poll();
  // Arms the sleep flag; false when there is work after all.
  bool prepare_sleep();
  void woke() { ring_.disarm(); }
  // After poll(). True when the application has not used it for many turns: then it is armed, and
  // stays so until the application has called.
  bool dozes();
  bool was_called() const { return !ring_.is_armed(); }
  void cancel(uint32_t lane, uint32_t slot, uint32_t sequence);
  // Takes nothing more and cancels what is in flight; `done` completes when all of it has ended.
  void leave(engine::Op& done);

 private:
  friend class ShardShare;
  void fail(const char* why);
  bool take_from(uint32_t lane);
  bool grow();
  void start(uint32_t lane, const ring::Submission& entry);
  // 0, or the negative errno with which the entry ends at once.
  int check(RingOp& op, const ring::Submission& entry);
  int check_range(RingOp& op, const ring::Submission& entry);
  int check_region(RingOp& op, const ring::Submission& entry);
  static int check_checksums_behind(RingOp& op, const ring::Submission& entry,
                                    const ServedRegion& region);
  int check_checksums_elsewhere(RingOp& op, const ring::Submission& entry);
  void begin(RingOp& op);
  // Of an operation that is traced: what it is, and how it ended.
  void begin_trace(RingOp& op);
  void end_trace(RingOp& op, int64_t result, engine::Route route);
  void cancel(RingOp& op);
  void finish(RingOp& op);
  void post(RingOp& op, int64_t result, engine::Route route);
  void publish();

  ShardShare& share_;
  const uint32_t id_;
  ring::AgentRing ring_;
  const resources::BusGuard* guard_;
  client::Flow flow_;
  std::vector<ring::AgentLane> lanes_;
  OpPool pool_;
  IntrusiveList<RingOp> free_;
  uint64_t unpublished_lanes_ = 0;  // a set of bits
  uint32_t in_flight_ = 0;
  uint32_t quiet_turns_ = 0;  // since something was under way
  bool serving_ = true;
  engine::Op* leaving_ = nullptr;
};

}  // namespace penstock::serving
