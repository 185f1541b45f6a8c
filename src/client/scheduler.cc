#include "scheduler.h"

#include <algorithm>

namespace penstock::client {
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
  ASSERT(waiting_ == 0 && places_used_ == 0);
}

Lane Scheduler::lane_of(const IoOp& io) {
  const bool small = io.traffic == Traffic::by_size ? io.memory.length <= limits::kSmallBytes
                                                    : io.traffic == Traffic::latency;
  if (small || io.kind == IoKind::sync) [[likely]]
    return Lane::small;
  return io.kind == IoKind::read ? Lane::read : Lane::write;
}

// A user gets places while it has fewer than are free.
bool Scheduler::has_place(const Flow& flow) const {
  for (const Flow* at = &flow;; at = at->parent_) {
    const uint32_t most = at->terms_ == nullptr ? 0 : at->terms_->operations_in_flight();
    if (most != 0 && at->held_ >= most) [[unlikely]]
      return false;
    if (at->parent_ == nullptr) return at->held_ < kIoOpsMax - places_used_;
  }
}

void Scheduler::begun(Flow& flow) {
  ++places_used_;
  for (Flow* at = &flow; at != nullptr; at = at->parent_) ++at->held_;
}

void Scheduler::ended(Flow& flow) {
  --places_used_;
  for (Flow* at = &flow; at != nullptr; at = at->parent_) --at->held_;
  if (starved_count_ == 0) [[likely]]
    return;
  // All of them try again, as anybody's end may help any of them; but only after as many ends as
  // there are of them, so that this costs no more than the ends do.
  if (++ended_since_ < starved_count_ && places_used_ != 0) return;
  ended_since_ = 0;
  for (size_t i = 0; i < kLaneCount; ++i) bring_back(starved_[i], static_cast<Lane>(i));
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

// Something below it may go: it takes its place in the lists above.
void Scheduler::activate(Flow* flow, Lane lane) {
  for (; flow != nullptr; flow = flow->parent_) {
    Side& side = side_of(*flow, lane);
    if (side.linked()) return;
    (flow->parent_ == nullptr ? tops_[index(lane)] : side_of(*flow->parent_, lane).children)
        .push_back(side);
  }
}

// Credit is not kept for later; a debt is.
void Scheduler::leave_if_idle(Flow* flow, Lane lane) {
  for (; flow != nullptr; flow = flow->parent_) {
    Side& side = side_of(*flow, lane);
    if (!side.queue.empty() || !side.children.empty() || side.kept || !side.linked()) return;
    side.unlink();
    if (std::exchange(side.aside, Aside::no) == Aside::starved) --starved_count_;
    side.deficit = std::min<int64_t>(side.deficit, 0);
    side.in_turn = false;
  }
}

void Scheduler::enqueued(Flow& flow, Lane lane) {
  ++waiting_;
  activate(&flow, lane);
}

void Scheduler::add_unstarted(IoOp& io, Flow& flow, Lane lane) {
  io.internal = &unstarted_mark;
  side_of(flow, lane).queue.push_back(io);
  ++side_of(flow, lane).unstarted;
  waited_.add();
  enqueued(flow, lane);
}

void Scheduler::add(IoOp& io, Flow& flow, Lane lane) {
  side_of(flow, lane).queue.push_back(io);
  waited_.add();
  enqueued(flow, lane);
}

void Scheduler::add_first(IoOp& io, Flow& flow, Lane lane) {
  side_of(flow, lane).queue.push_front(io);
  enqueued(flow, lane);
}

void Scheduler::remove(IoOp& io, Flow& flow, Lane lane) {
  io.unlink();
  if (is_unstarted(io)) --side_of(flow, lane).unstarted;
  --waiting_;
  leave_if_idle(&flow, lane);
}

// Deficit round robin. A turn ends when as much was spent as was there, or a little more, which is
// a debt then.
Flow::Side* Scheduler::turn_of(IntrusiveList<Side>& list, Lane lane) {
  const uint64_t quantum = lane == Lane::small ? limits::kQuantumSmall : limits::kQuantumLarge;
  while (!list.empty()) {
    Side& side = list.front();
    if (!side.in_turn) {
      const Terms* const terms = side.flow->terms_;
      side.deficit +=
          static_cast<int64_t>(quantum * (terms == nullptr ? 100 : terms->weight()) / 100);
      side.in_turn = true;
    }
    if (side.deficit > 0) return &side;
    side.in_turn = false;
    side.unlink();
    list.push_back(side);
  }
  return nullptr;
}

// Whether what has its turn cannot use it, and is out of the way now.
bool Scheduler::hold_back(Side& side, Lane lane) {
  const Terms* const terms = side.flow->terms_;
  if (terms != nullptr && terms->ready_at() > loop_.now()) {
    const engine::Time at = std::min(terms->ready_at(), loop_.now() + limits::kPaceLook);
    if (at < timer_at_) {
      if (timer_at_ != engine::kNever) loop_.cancel(timer_);
      timer_at_ = at;
      loop_.start(timer_, timer_at_);
    }
    slowed_.add();
    set_aside(side, lane, Aside::paced);
    return true;
  }
  if (!side.children.empty() || !is_unstarted(side.queue.front()) || has_place(*side.flow)) {
    return false;
  }
  set_aside(side, lane, Aside::starved);
  ++starved_count_;
  return true;
}

void Scheduler::set_aside(Side& side, Lane lane, Aside why) {
  side.unlink();
  side.deficit = std::min<int64_t>(side.deficit, 0);
  side.in_turn = false;
  side.aside = why;
  (why == Aside::paced ? paced_ : starved_)[index(lane)].push_back(side);
  leave_if_idle(side.flow->parent_, lane);
}

void Scheduler::bring_back(IntrusiveList<Side>& from, Lane lane) {
  while (Side* side = from.pop_front()) {
    if (std::exchange(side->aside, Aside::no) == Aside::starved) --starved_count_;
    activate(side->flow, lane);
  }
}

void Scheduler::wake_paced() {
  timer_at_ = engine::kNever;
  for (size_t i = 0; i < kLaneCount; ++i) bring_back(paced_[i], static_cast<Lane>(i));
  on_ready_();
}

// The flow whose operation goes next; null when all that waits must wait longer.
Flow* Scheduler::pick(Lane lane) {
  Side* side = turn_of(tops_[index(lane)], lane);
  while (side != nullptr) {
    if (hold_back(*side, lane)) {
      side = turn_of(tops_[index(lane)], lane);
      continue;
    }
    if (side->children.empty()) return side->flow;
    side = turn_of(side->children, lane);
  }
  return nullptr;
}

Scheduler::Turn Scheduler::next() {
  for (const Lane lane : {Lane::small, Lane::read, Lane::write}) {
    if (tops_[index(lane)].empty() || !is_open(lane)) continue;
    Flow* const flow = pick(lane);
    if (flow == nullptr) continue;
    Side& side = side_of(*flow, lane);
    IoOp* const io = side.queue.pop_front();
    if (is_unstarted(*io)) --side.unstarted;
    --waiting_;
    side.kept = true;
    return {io, flow, lane};
  }
  return {};
}

void Scheduler::end_turn(const Turn& turn) {
  side_of(*turn.flow, turn.lane).kept = false;
  leave_if_idle(turn.flow, turn.lane);
}

void Scheduler::sent(const IoOp& io, Flow& flow, Lane lane, bool first, UnderWay& piece) {
  const uint32_t bytes = io.kind == IoKind::sync ? 0 : piece.length;
  const bool takes_turns = !tops_[index(lane)].empty();
  for (Flow* at = &flow; at != nullptr; at = at->parent_) {
    if (takes_turns) {
      side_of(*at, lane).deficit -= static_cast<int64_t>(bytes + limits::kOperationCost);
    }
    if (at->terms_ != nullptr) at->terms_->charge(loop_.now(), bytes, first);
  }
  piece.length = bytes;
  piece.probes = false;
  if (lane == Lane::small) [[likely]] {
    // What waits for commits does not wait for the disk's queue.
    const bool commits = io.kind == IoKind::sync || (io.kind == IoKind::write && io.durable);
    piece.counted = commits ? 0 : std::max<uint32_t>(1, bytes / limits::kSmallUnit);
    if (under_way_[index(Lane::read)] != 0 && io.kind == IoKind::read) [[unlikely]] {
      const engine::Duration time = time_in_period(loop_.now());
      piece.probes = time < limits::kProbe && time >= limits::kProbeSettles;
    }
  } else {
    piece.counted = bytes;
    piece.delivered = delivered_;
  }
  piece.sent = loop_.now();
  under_way_[index(lane)] += piece.counted;
}

void Scheduler::landed(Lane lane, const UnderWay& piece) {
  under_way_[index(lane)] -= piece.counted;
  if (lane != Lane::read && !piece.probes) [[likely]]
    return;
  const int64_t time = (loop_.now() - piece.sent).count();
  if (piece.probes) return small_time_.note(-time, loop_.now());
  delivered_ += piece.length;
  if (time <= 0) return;
  const double rate =
      static_cast<double>(delivered_ - piece.delivered) * 1e9 / static_cast<double>(time);
  read_rate_.note(static_cast<int64_t>(rate), loop_.now());
}

uint64_t Scheduler::bound_of_large(Lane lane) const {
  const bool beside_small = company_.has_small(loop_.now());
  if (lane == Lane::write) {
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

}  // namespace penstock::client
