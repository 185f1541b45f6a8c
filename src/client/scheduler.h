// Scheduler: which operation of a shard's client goes next, and how much is under way at a time.
// Why it is as it is: docs/decisions/0028. It sees operations and flows, not what becomes of them.
#pragma once

#include "limits.h"

#include <functional>

#include "penstock/client.h"

namespace penstock::client {

// What the schedulers of one node know of one another. Thread safe.
class Company {
 public:
  // A small operation came. Mostly no more than a look.
  void note_small(engine::Time now) {
    const int64_t at = now.time_since_epoch().count();
    const int64_t since = at - seen_.load(std::memory_order_relaxed);
    if (since <= limits::kSmallSeenStep.count()) [[likely]]
      return;
    seen_.store(at, std::memory_order_relaxed);
    if (since <= limits::kSmallManyGap.count()) many_.store(at, std::memory_order_relaxed);
  }
  bool has_small(engine::Time now) const {
    const int64_t seen = seen_.load(std::memory_order_relaxed);
    return now.time_since_epoch().count() - seen < limits::kSmallSeenFor.count();
  }

  // They follow one another closely.
  bool has_many_small(engine::Time now) const {
    const int64_t many = many_.load(std::memory_order_relaxed);
    return now.time_since_epoch().count() - many < limits::kSmallManyFor.count();
  }

 private:
  // Relaxed: hints. At first long ago, on every clock.
  std::atomic<int64_t> seen_{-limits::kSmallSeenFor.count()};
  std::atomic<int64_t> many_{-limits::kSmallManyFor.count()};
};

// The largest of what was seen lately.
class RecentMax {
 public:
  RecentMax(int64_t lowest, engine::Duration span)
      : lowest_(lowest), span_(span), now_(lowest), before_(lowest) {}
  void note(int64_t value, engine::Time now) {
    if (now - began_ > span_) [[unlikely]]
      turn(now);
    if (value > now_) now_ = value;
  }
  int64_t get() const { return now_ > before_ ? now_ : before_; }

 private:
  void turn(engine::Time now) {
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
  uint32_t counted = 0;  // against the bound of its lane
  bool probes = false;   // a small read while little is under way
  engine::Time sent;
  uint64_t delivered = 0;  // of large reads, when it was sent
};

// Owner thread of its loop only. An operation has its place from begun() to ended(), and waits
// before that (unstarted) or in between.
class Scheduler {
 public:
  // `on_ready`: something that was held back by a limit may go now.
  Scheduler(engine::Loop& loop, Company& company, std::function<void()> on_ready);
  ~Scheduler();

  static Lane lane_of(const IoOp& io);
  Flow& flow_of(const IoOp& io) { return io.flow != nullptr ? *io.flow : own_; }
  void note_small() { company_.note_small(loop_.now()); }

  // Whether an operation gets a place. Not before those of its flow that wait for one.
  bool may_begin(const Flow& flow, Lane lane) const {
    return flow.sides_[index(lane)].unstarted == 0 && has_place(flow);
  }
  void begun(Flow& flow);
  void ended(Flow& flow);
  // What `from` has begun goes on without it. The flow whose it is from now on.
  Flow& adopt(Flow& from);
  static bool is_unstarted(const IoOp& io) { return io.internal == &unstarted_mark; }

  // Whether a piece may go at once: nobody waits in its lane, and nothing holds it back.
  bool passes(const Flow& flow, Lane lane) const {
    return tops_[index(lane)].empty() && is_open(lane) && ready_at(flow) <= loop_.now();
  }
  // It waits behind the others of its flow: for a place, if it has none yet.
  void add_unstarted(IoOp& io, Flow& flow, Lane lane);
  void add(IoOp& io, Flow& flow, Lane lane);
  // It has begun, and waits to go on.
  void add_first(IoOp& io, Flow& flow, Lane lane);
  void remove(IoOp& io, Flow& flow, Lane lane);
  bool has_waiting() const { return waiting_ != 0; }

  // The operation whose turn it is, out of its queue, if any may go now. Its flow keeps the turn
  // until end_turn(), whatever became of the operation.
  struct Turn {
    IoOp* io = nullptr;
    Flow* flow = nullptr;
    Lane lane = Lane::small;
  };
  Turn next();
  void end_turn(const Turn& turn);

  // The most that the next piece of a read may have.
  uint32_t read_piece_bytes() const {
    return company_.has_small(loop_.now()) ? limits::kReadPieceBytesBesideSmall
                                           : limits::kReadPieceBytes;
  }
  // A piece goes, whose length is set; `first`: the operation's first.
  void sent(const IoOp& io, Flow& flow, Lane lane, bool first, UnderWay& piece);
  void landed(Lane lane, const UnderWay& piece);

  // Units of kSmallUnit (small), bytes (others).
  uint64_t under_way(Lane lane) const { return under_way_[index(lane)]; }
  uint64_t bound(Lane lane) const {
    return lane == Lane::small ? limits::kSmallUnderWayMax : bound_of_large(lane);
  }

 private:
  using Side = Flow::Side;
  using Aside = Flow::Aside;
  static int unstarted_mark;
  static size_t index(Lane lane) { return static_cast<size_t>(lane); }
  static Side& side_of(Flow& flow, Lane lane) { return flow.sides_[index(lane)]; }

  bool is_open(Lane lane) const { return under_way_[index(lane)] < bound(lane); }
  bool has_place(const Flow& flow) const;
  uint64_t bound_of_large(Lane lane) const;
  static engine::Time ready_at(const Flow& flow);
  void enqueued(Flow& flow, Lane lane);
  void activate(Flow* flow, Lane lane);
  void leave_if_idle(Flow* flow, Lane lane);
  static Side* turn_of(IntrusiveList<Side>& list, Lane lane);
  Flow* pick(Lane lane);
  bool hold_back(Side& side, Lane lane);
  void set_aside(Side& side, Lane lane, Aside why);
  void bring_back(IntrusiveList<Side>& from, Lane lane);
  void wake_paced();

  engine::Loop& loop_;
  Company& company_;
  const std::function<void()> on_ready_;
  Flow own_;  // of operations that name none
  std::array<IntrusiveList<Side>, kLaneCount> tops_;
  std::array<IntrusiveList<Side>, kLaneCount> paced_;    // above their limit, until the timer
  std::array<IntrusiveList<Side>, kLaneCount> starved_;  // whose next operation finds no place
  engine::Timer timer_;
  engine::Time timer_at_ = engine::kNever;  // not set
  uint32_t waiting_ = 0;                    // operations in queues
  uint32_t starved_count_ = 0;
  uint32_t ended_since_ = 0;  // places given back since those who starve were brought back
  uint32_t places_used_ = 0;
  std::array<uint64_t, kLaneCount> under_way_{};
  uint64_t delivered_ = 0;                   // bytes of large reads
  RecentMax read_rate_{0, limits::kRecent};  // of these, bytes a second
  // Of small reads that probe: nanoseconds, negated.
  RecentMax small_time_{-INT64_MAX, limits::kProbePeriod};
  metrics::Counter waited_{"client.waited"};
  metrics::Counter slowed_{"client.slowed"};
};

}  // namespace penstock::client
