// Scheduler: which operation of a shard's client goes next, and how much is under way at a time.
// Why it is as it is: docs/decisions/0028. It sees operations and flows, not what becomes of them.
#pragma once

#include <functional>

#include "penstock/shards.h"
#include "penstock/shards/limits.h"

namespace penstock::shards {

// The largest of what was seen lately.
class RecentMax {
 public:
  RecentMax(int64_t lowest, engine::Duration span)
      : lowest_(lowest), span_(span), now_(lowest), before_(lowest) {}
  void note(int64_t value, engine::Time now) {
    if (now - began_ > span_) [[unlikely]]
      roll_over(now);
    if (value > now_) now_ = value;
  }
  int64_t get() const { return now_ > before_ ? now_ : before_; }

 private:
  void roll_over(engine::Time now) {
    before_ = now - began_ > 2 * span_ ? lowest_ : now_;
    now_ = lowest_;
    began_ = now;
  }
  const int64_t lowest_;
  const engine::Duration span_;
  int64_t now_;
  int64_t before_;
  engine::Time began_{};
};

// A piece of an operation that went below the client.
struct UnderWay {
  uint32_t length = 0;   // bytes
  uint32_t counted = 0;  // against the bound of its io_class
  bool probes = false;   // a small read while little is under way
  engine::Time sent;
  uint64_t delivered = 0;  // of large reads, when it was sent
};

// Owner thread of its loop only. An operation has its slot from begun() to ended(), and waits
// before that (unstarted) or in between.
class Scheduler {
 public:
  // `on_ready`: something that was held back by a limit may go now.
  Scheduler(engine::Loop& loop, Company& company, std::function<void()> on_ready);
  ~Scheduler();

  static IoClass class_of(const IoOp& io);
  Flow& flow_of(const IoOp& io) { return io.flow != nullptr ? *io.flow : own_; }
  void note_small() { company_.note_small(loop_.now()); }

  // Whether an operation gets a slot. Not before those of its flow that wait for one.
  bool may_begin(const Flow& flow, IoClass io_class) const {
    return flow.sides_[index(io_class)].unstarted == 0 && has_slot(flow);
  }
  void begun(Flow& flow);
  void ended(Flow& flow);
  // What `from` has begun goes on without it. The flow to which it belongs from now on.
  Flow& adopt(Flow& from);
  static bool is_unstarted(const IoOp& io) { return io.internal == &unstarted_mark; }

  // Whether a piece may go at once: no operation waits in its class, and nothing holds it back.
  bool passes(const Flow& flow, IoClass io_class) const {
    return tops_[index(io_class)].empty() && is_open(io_class) && ready_at(flow) <= loop_.now();
  }
  // It waits behind the others of its flow: for a slot, if it has none yet.
  void add_unstarted(IoOp& io, Flow& flow, IoClass io_class);
  void add(IoOp& io, Flow& flow, IoClass io_class);
  // It has begun, and waits to go on.
  void add_first(IoOp& io, Flow& flow, IoClass io_class);
  void remove(IoOp& io, Flow& flow, IoClass io_class);
  bool has_waiting() const { return waiting_ != 0; }

  // The operation that goes next, out of its queue, if any may go now. Its flow stays the next one
  // until end_dispatch(), whatever became of the operation.
  struct Dispatch {
    IoOp* io = nullptr;
    Flow* flow = nullptr;
    IoClass io_class = IoClass::small;
  };
  Dispatch next();
  void end_dispatch(const Dispatch& next);

  // The most that the next piece of a read may have.
  uint32_t read_piece_bytes() const {
    return company_.has_small(loop_.now()) ? limits::kReadPieceBytesBesideSmall
                                           : limits::kReadPieceBytes;
  }
  // A piece goes, whose length is set; `first`: the operation's first.
  void sent(const IoOp& io, Flow& flow, IoClass io_class, bool first, UnderWay& piece);
  void landed(IoClass io_class, const UnderWay& piece);

  // Units of kSmallUnit (small), bytes (others).
  uint64_t under_way(IoClass io_class) const { return under_way_[index(io_class)]; }
  uint64_t bound(IoClass io_class) const {
    return io_class == IoClass::small ? limits::kSmallUnderWayMax : bound_of_large(io_class);
  }

 private:
  using Side = Flow::Side;
  using Aside = Flow::Aside;
  static int unstarted_mark;
  static size_t index(IoClass io_class) { return static_cast<size_t>(io_class); }
  static Side& side_of(Flow& flow, IoClass io_class) { return flow.sides_[index(io_class)]; }

  bool is_open(IoClass io_class) const { return under_way_[index(io_class)] < bound(io_class); }
  bool has_slot(const Flow& flow) const;
  uint64_t bound_of_large(IoClass io_class) const;
  static engine::Time ready_at(const Flow& flow);
  void enqueued(Flow& flow, IoClass io_class);
  void activate(Flow* flow, IoClass io_class);
  void leave_if_idle(Flow* flow, IoClass io_class);
  static Side* next_of(IntrusiveList<Side>& list, IoClass io_class);
  Flow* pick(IoClass io_class);
  bool hold_back(Side& side, IoClass io_class);
  void set_aside(Side& side, IoClass io_class, Aside why);
  void requeue(IntrusiveList<Side>& from, IoClass io_class);
  void wake_paced();

  engine::Loop& loop_;
  Company& company_;
  const std::function<void()> on_ready_;
  Flow own_;  // of operations that name none
  std::array<IntrusiveList<Side>, kIoClassCount> tops_;
  std::array<IntrusiveList<Side>, kIoClassCount> paced_;    // above their limit, until the timer
  std::array<IntrusiveList<Side>, kIoClassCount> starved_;  // whose next operation finds no slot
  engine::Timer timer_;
  engine::Time timer_at_ = engine::kNever;  // not set
  uint32_t waiting_ = 0;                    // operations in queues
  uint32_t starved_count_ = 0;
  uint32_t ended_since_ = 0;  // slots given back since starved flows were queued again
  uint32_t slots_used_ = 0;
  std::array<uint64_t, kIoClassCount> under_way_{};
  uint64_t delivered_ = 0;                   // bytes of large reads
  RecentMax read_rate_{0, limits::kRecent};  // of these, bytes a second
  // Of small reads that probe: nanoseconds, negated.
  RecentMax small_time_{-INT64_MAX, limits::kProbePeriod};
  metrics::Counter waited_{"client.waited"};
  metrics::Counter slowed_{"client.slowed"};
};

}  // namespace penstock::shards
