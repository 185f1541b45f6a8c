#include "scheduler.h"

#include <algorithm>

namespace penstock::shards {
namespace {

engine::Duration time_in_period(engine::Time now) {
  return now.time_since_epoch() % limits::kProbePeriod;
}

}  // namespace

int Scheduler::unstarted_mark;

Scheduler::Scheduler(engine::Loop& loop, Company& company, std::function<void()> on_ready)
    : loop_(loop), company_(company), on_ready_(std::move(on_ready)) {
  timer_.owner = this;
  timer_.completion = [](engine::Op& due) { due.owner_as<Scheduler>().wake_paced(); };
}

Scheduler::~Scheduler() {
  if (timer_at_ != engine::kNever) loop_.cancel(timer_);
  ASSERT(waiting_ == 0 && slots_used_ == 0);
  // Every piece that was sent has landed; what stayed would hold back the others of its class.
  for (const uint64_t under_way : under_way_) ASSERT(under_way == 0);
}

IoClass Scheduler::class_of(const IoOp& io) {
  const bool small = io.traffic == Traffic::by_size ? io.memory.length <= limits::kSmallBytes
                                                    : io.traffic == Traffic::latency;
  if (small || io.kind == IoKind::sync) [[likely]]
    return IoClass::small;
  return io.kind == IoKind::read ? IoClass::read : IoClass::write;
}

// A user gets slots while it has fewer than are free.
bool Scheduler::has_slot(const Flow& flow) const {
  for (const Flow* at = &flow;; at = at->parent_) {
    const uint32_t most = at->terms_ == nullptr ? 0 : at->terms_->operations_in_flight();
    if (most != 0 && at->held_ >= most) [[unlikely]]
      return false;
    if (at->parent_ == nullptr) return at->held_ < kIoOpsMax - slots_used_;
  }
}

void Scheduler::begun(Flow& flow) {
  ASSERT(slots_used_ < kIoOpsMax);
  ++slots_used_;
  for (Flow* at = &flow; at != nullptr; at = at->parent_) ++at->held_;
}

void Scheduler::ended(Flow& flow) {
  ASSERT(slots_used_ > 0);
  --slots_used_;
  for (Flow* at = &flow; at != nullptr; at = at->parent_) {
    ASSERT(at->held_ > 0);
    --at->held_;
  }
  if (starved_count_ == 0) [[likely]]
    return;
  // All of them try again, as the end of any operation may help any of them; but only after as many
  // ends as there are of them, so that this costs no more than the ends do.
  if (++ended_since_ < starved_count_ && slots_used_ != 0) return;
  ended_since_ = 0;
  for (size_t i = 0; i < kIoClassCount; ++i) requeue(starved_[i], static_cast<IoClass>(i));
}

Flow& Scheduler::adopt(Flow& from) {
  begun(own_);
  ended(from);
  return own_;
}

engine::Time Scheduler::ready_at(const Flow& flow) {
  engine::Time at = engine::Time::min();
  for (const Flow* one = &flow; one != nullptr; one = one->parent_) {
    if (one->terms_ != nullptr) at = std::max(at, one->terms_->ready_at());
  }
  return at;
}

// Something below it may go: it joins the lists above.
void Scheduler::activate(Flow* flow, IoClass io_class) {
  for (; flow != nullptr; flow = flow->parent_) {
    Side& side = side_of(*flow, io_class);
    if (side.linked()) return;
    (flow->parent_ == nullptr ? tops_[index(io_class)] : side_of(*flow->parent_, io_class).children)
        .push_back(side);
  }
}

// Credit is not kept for later; a debt is.
void Scheduler::leave_if_idle(Flow* flow, IoClass io_class) {
  for (; flow != nullptr; flow = flow->parent_) {
    Side& side = side_of(*flow, io_class);
    if (!side.queue.empty() || !side.children.empty() || side.kept || !side.linked()) return;
    side.unlink();
    if (std::exchange(side.aside, Aside::no) == Aside::starved) --starved_count_;
    side.deficit = std::min<int64_t>(side.deficit, 0);
    side.in_round = false;
  }
}

void Scheduler::enqueued(Flow& flow, IoClass io_class) {
  ++waiting_;
  activate(&flow, io_class);
}

void Scheduler::add_unstarted(IoOp& io, Flow& flow, IoClass io_class) {
  io.internal = &unstarted_mark;
  side_of(flow, io_class).queue.push_back(io);
  ++side_of(flow, io_class).unstarted;
  waited_.add();
  enqueued(flow, io_class);
}

void Scheduler::add(IoOp& io, Flow& flow, IoClass io_class) {
  side_of(flow, io_class).queue.push_back(io);
  waited_.add();
  enqueued(flow, io_class);
}

void Scheduler::add_first(IoOp& io, Flow& flow, IoClass io_class) {
  ASSERT(!is_unstarted(io));
  side_of(flow, io_class).queue.push_front(io);
  enqueued(flow, io_class);
}

void Scheduler::remove(IoOp& io, Flow& flow, IoClass io_class) {
  io.unlink();
  Side& side = side_of(flow, io_class);
  ASSERT(waiting_ > 0 && (!is_unstarted(io) || side.unstarted > 0));
  if (is_unstarted(io)) --side.unstarted;
  --waiting_;
  leave_if_idle(&flow, io_class);
}

// Deficit round robin. A flow's round ends when as much was spent as was there, or a little more,
// which is a debt then.
Flow::Side* Scheduler::next_of(IntrusiveList<Side>& list, IoClass io_class) {
  const uint64_t quantum =
      io_class == IoClass::small ? limits::kQuantumSmall : limits::kQuantumLarge;
  while (!list.empty()) {
    Side& side = list.front();
    if (!side.in_round) {
      const Terms* const terms = side.flow->terms_;
      side.deficit +=
          static_cast<int64_t>(quantum * (terms == nullptr ? 100 : terms->weight()) / 100);
      side.in_round = true;
    }
    if (side.deficit > 0) return &side;
    side.in_round = false;
    side.unlink();
    list.push_back(side);
  }
  return nullptr;
}

// Whether the flow that comes next may not go, and is set aside now.
bool Scheduler::hold_back(Side& side, IoClass io_class) {
  const Terms* const terms = side.flow->terms_;
  if (terms != nullptr && terms->ready_at() > loop_.now()) {
    const engine::Time at = std::min(terms->ready_at(), loop_.now() + limits::kPaceLook);
    if (at < timer_at_) {
      if (timer_at_ != engine::kNever) loop_.cancel(timer_);
      timer_at_ = at;
      loop_.start(timer_, timer_at_);
    }
    slowed_.add();
    set_aside(side, io_class, Aside::paced);
    return true;
  }
  if (!side.children.empty() || !is_unstarted(side.queue.front()) || has_slot(*side.flow)) {
    return false;
  }
  ASSERT(side.aside == Aside::no);
  set_aside(side, io_class, Aside::starved);
  ++starved_count_;
  return true;
}

void Scheduler::set_aside(Side& side, IoClass io_class, Aside why) {
  side.unlink();
  side.deficit = std::min<int64_t>(side.deficit, 0);
  side.in_round = false;
  side.aside = why;
  (why == Aside::paced ? paced_ : starved_)[index(io_class)].push_back(side);
  leave_if_idle(side.flow->parent_, io_class);
}

void Scheduler::requeue(IntrusiveList<Side>& from, IoClass io_class) {
  while (Side* side = from.pop_front()) {
    if (std::exchange(side->aside, Aside::no) == Aside::starved) --starved_count_;
    activate(side->flow, io_class);
  }
}

void Scheduler::wake_paced() {
  timer_at_ = engine::kNever;
  for (size_t i = 0; i < kIoClassCount; ++i) requeue(paced_[i], static_cast<IoClass>(i));
  on_ready_();
}

// The flow whose operation goes next; null when all that waits must wait longer.
Flow* Scheduler::pick(IoClass io_class) {
  Side* side = next_of(tops_[index(io_class)], io_class);
  while (side != nullptr) {
    if (hold_back(*side, io_class)) {
      side = next_of(tops_[index(io_class)], io_class);
      continue;
    }
    if (side->children.empty()) return side->flow;
    side = next_of(side->children, io_class);
  }
  return nullptr;
}

Scheduler::Dispatch Scheduler::next() {
  for (const IoClass io_class : {IoClass::small, IoClass::read, IoClass::write}) {
    if (tops_[index(io_class)].empty() || !is_open(io_class)) continue;
    Flow* const flow = pick(io_class);
    if (flow == nullptr) continue;
    Side& side = side_of(*flow, io_class);
    IoOp* const io = side.queue.pop_front();
    ASSERT(io != nullptr && waiting_ > 0 && !side.kept);
    if (is_unstarted(*io)) --side.unstarted;
    --waiting_;
    side.kept = true;
    return {io, flow, io_class};
  }
  return {};
}

void Scheduler::end_dispatch(const Dispatch& next) {
  ASSERT(side_of(*next.flow, next.io_class).kept);
  side_of(*next.flow, next.io_class).kept = false;
  leave_if_idle(next.flow, next.io_class);
}

void Scheduler::sent(const IoOp& io, Flow& flow, IoClass io_class, bool first, UnderWay& piece) {
  const uint32_t bytes = io.kind == IoKind::sync ? 0 : piece.length;
  const bool takes_turns = !tops_[index(io_class)].empty();
  for (Flow* at = &flow; at != nullptr; at = at->parent_) {
    if (takes_turns) {
      side_of(*at, io_class).deficit -= static_cast<int64_t>(bytes + limits::kOperationCost);
    }
    if (at->terms_ != nullptr) at->terms_->charge(loop_.now(), bytes, first);
  }
  piece.length = bytes;
  piece.probes = false;
  if (io_class == IoClass::small) [[likely]] {
    // What waits for commits does not wait for the disk's queue.
    const bool commits = io.kind == IoKind::sync || (io.kind == IoKind::write && io.durable);
    piece.counted = commits ? 0 : std::max<uint32_t>(1, bytes / limits::kSmallUnit);
    if (under_way_[index(IoClass::read)] != 0 && io.kind == IoKind::read) [[unlikely]] {
      const engine::Duration time = time_in_period(loop_.now());
      piece.probes = time < limits::kProbe && time >= limits::kProbeIgnored;
    }
  } else {
    piece.counted = bytes;
    piece.delivered = delivered_;
  }
  piece.sent = loop_.now();
  under_way_[index(io_class)] += piece.counted;
}

void Scheduler::landed(IoClass io_class, const UnderWay& piece) {
  // Pairs with sent(): what a io_class has under way is the sum of its pieces.
  ASSERT(under_way_[index(io_class)] >= piece.counted);
  under_way_[index(io_class)] -= piece.counted;
  if (io_class != IoClass::read && !piece.probes) [[likely]]
    return;
  const int64_t time = (loop_.now() - piece.sent).count();
  if (piece.probes) return small_time_.note(-time, loop_.now());
  delivered_ += piece.length;
  if (time <= 0) return;
  const double rate =
      static_cast<double>(delivered_ - piece.delivered) * 1e9 / static_cast<double>(time);
  read_rate_.note(static_cast<int64_t>(rate), loop_.now());
}

uint64_t Scheduler::bound_of_large(IoClass io_class) const {
  const bool beside_small = company_.has_small(loop_.now());
  if (io_class == IoClass::write) {
    return beside_small ? limits::kWritesUnderWayBesideSmall : limits::kWritesUnderWay;
  }
  using std::chrono::nanoseconds;
  nanoseconds time = limits::kReadsTime;
  uint64_t least = limits::kReadsUnderWay;
  if (beside_small) {
    const bool many = company_.has_many_small(loop_.now());
    time = many ? limits::kReadsTimeBesideMany : limits::kReadsTimeBesideSmall;
    if (small_time_.get() != -INT64_MAX && time_in_period(loop_.now()) >= limits::kProbe) {
      const nanoseconds answers(-small_time_.get());
      time = std::clamp<nanoseconds>(answers * 3 / 2, time, limits::kReadsTimeBesideSmallMax);
    }
    least = many ? limits::kReadsUnderWayBesideMany : limits::kReadsUnderWayBesideSmall;
  }
  const double moved =
      static_cast<double>(read_rate_.get()) * static_cast<double>(time.count()) / 1e9;
  return std::clamp(static_cast<uint64_t>(moved), least, limits::kReadsUnderWayMax);
}

}  // namespace penstock::shards
