// Flow: to which ring an operation belongs. Shards give turns to flows (docs/decisions/0028).
#pragma once

#include <array>
#include <atomic>

#include "penstock/engine.h"

namespace penstock::shards {

struct IoOp;

// How an operation is to be treated.
enum class Traffic : uint8_t {
  by_size,     // small ones as latency, large ones as throughput
  latency,     // its time matters
  throughput,  // the sum matters
};

// What one user or one session may have of a node. 0: no limit.
struct Allowance {
  uint32_t weight = 100;  // its share, beside that of others; 1 to kWeightMax
  uint64_t bytes_per_second = 0;
  uint64_t operations_per_second = 0;
  uint32_t operations_in_flight = 0;  // on each shard

  bool operator==(const Allowance&) const = default;
};
inline constexpr uint32_t kWeightMax = 10'000;

// An allowance in force, on all shards together, and how far it is used up. Thread safe.
class Terms {
 public:
  // invalid_argument for a weight that is none.
  Status set(const Allowance& allowance);
  Allowance allowance() const;

  uint32_t weight() const { return weight_.load(std::memory_order_relaxed); }
  uint32_t operations_in_flight() const { return in_flight_.load(std::memory_order_relaxed); }
  // When the next piece of an operation may go; not after `now` if it may now.
  engine::Time ready_at() const;
  void charge(engine::Time now, uint64_t bytes, bool begins);

 private:
  // A virtual clock: what was charged ends there at the pace of the limit. All relaxed: a flow that
  // comes a moment too early has the next wait for it.
  struct Pace {
    std::atomic<uint64_t> per_second{0};
    std::atomic<int64_t> ends{0};
    void charge(engine::Time now, uint64_t amount);
    int64_t ready_at() const;
  };

  std::atomic<uint32_t> weight_{100};
  std::atomic<uint32_t> in_flight_{0};
  Pace bytes_, operations_;
};

// Which queues an operation waits in; each has a bound of its own on what is under way.
enum class IoClass : uint8_t { small, read, write };
inline constexpr size_t kIoClassCount = 3;

// A node in the tree of flows that one shard schedules: users at the top, then their sessions,
// then rings, whose operations wait here. Owned by the front that submits for it, in the thread of
// the shard's loop; outlives its operations and those below it.
class Flow {
 public:
  Flow();
  ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // Once, before its first operation. Without a parent it is at the top. `terms`, which may be
  // null, outlives it.
  void join(Flow* parent, Terms* terms) {
    parent_ = parent;
    terms_ = terms;
  }

 private:
  friend class Scheduler;

  // What it waits for, if not for its turn.
  enum class Aside : uint8_t { no, paced, starved };

  // Its position in one io_class's tree. In the list of its parent while something below it may go,
  // in one of the scheduler's while it is set aside. Only flows without others below them have a
  // queue.
  struct Side : ListNode {
    Flow* flow = nullptr;
    IntrusiveList<Side> children;
    IntrusiveList<IoOp> queue;
    uint32_t unstarted = 0;  // of `queue`, at its end
    int64_t deficit = 0;     // what it may still spend in this turn; below 0: a debt
    bool in_round = false;
    bool kept = false;  // an operation of it is being handed on: it stays where it is
    Aside aside = Aside::no;
  };

  Flow* parent_ = nullptr;
  Terms* terms_ = nullptr;
  uint32_t held_ = 0;  // slots of the client
  std::array<Side, kIoClassCount> sides_;
};

}  // namespace penstock::shards
