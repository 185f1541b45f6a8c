// A group's calls for PEs of other nodes.
#include "limits.h"
#include "mapped.h"

#include <algorithm>
#include <thread>

namespace penstock::symm {
namespace {

Change change_of(SignalOp op, uint64_t value) {
  return {op == SignalOp::set ? AtomicOp::set : AtomicOp::add, sizeof value, value};
}

}  // namespace

std::byte* Group::at_slot(const void* symmetric, uint64_t bytes, uint32_t pe) const {
  const uint32_t slot = slot_of(pe);
  if (slot == kNoSlot) return nullptr;
  if (memory_.holds(symmetric, bytes)) return memory_.at(symmetric, slot);
  return data_.holds(symmetric, bytes) ? data_.at(symmetric, slot) : nullptr;
}

std::optional<FarPlace> Group::far_place(const void* symmetric, uint64_t bytes, uint32_t pe) const {
  if (far_ == nullptr || pe >= size_ || is_near(pe)) return std::nullopt;
  if (memory_.holds(symmetric, bytes))
    return FarPlace{Segment::memory, memory_.offset_of(symmetric)};
  if (data_.holds(symmetric, bytes)) return FarPlace{Segment::data, data_.offset_of(symmetric)};
  return std::nullopt;
}

// A connection ends before the job has told whose end it was: messages wait for its word.
Status Group::told_of(Status status, uint32_t pe) const {
  if (status.code() != Code::peer_gone) return status;
  const engine::Time until = waits_.clock->now() + limits::kFarNews;
  while (!member_.has_ended(ranks_[pe]) && waits_.clock->now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return status;
}

Status Group::put_far(void* dest, const void* source, uint64_t bytes, uint32_t pe) {
  const auto place = far_place(dest, bytes, pe);
  if (!place) return Code::invalid_argument;
  if (bytes == 0) return {};
  return told_of(far_->put(pe, *place, {static_cast<const std::byte*>(source), bytes}), pe);
}

Status Group::start_get_far(void* dest, const void* source, uint64_t bytes, uint32_t pe,
                            FarAnswer* answer) {
  const auto place = far_place(source, bytes, pe);
  if (!place) return Code::invalid_argument;
  if (bytes == 0) return {};
  return told_of(far_->start_get(pe, {static_cast<std::byte*>(dest), bytes}, *place, answer), pe);
}

Status Group::finish_far(FarAnswer* answer) {
  const Status status = far_->finish(answer);
  const auto broken = far_->broken();
  return broken ? told_of(status, *broken) : status;
}

Status Group::get_far(void* dest, const void* source, uint64_t bytes, uint32_t pe) {
  FarAnswer answer;
  TRY(start_get_far(dest, source, bytes, pe, &answer));
  return finish_far(&answer);
}

Status Group::get_later_far(void* dest, const void* source, uint64_t bytes, uint32_t pe) {
  const auto place = far_place(source, bytes, pe);
  if (!place) return Code::invalid_argument;
  if (bytes == 0) return {};
  return told_of(far_->get_later(pe, {static_cast<std::byte*>(dest), bytes}, *place), pe);
}

Status Group::fetch_later_far(void* dest, const void* word, const Change& change,
                              uint32_t pe) const {
  const auto place = far_place(word, change.width, pe);
  if (!place || !is_aligned(place->offset, change.width)) return Code::invalid_argument;
  return told_of(far_->change_later(pe, *place, change, dest), pe);
}

Status Group::put_signal_far(void* dest, const void* source, uint64_t bytes, uint64_t* signal,
                             uint64_t value, SignalOp op, uint32_t pe) {
  const auto word = far_place(signal, sizeof *signal, pe);
  const auto place = bytes == 0 ? FarPlace() : far_place(dest, bytes, pe);
  if (!word || !place || !is_aligned(word->offset, sizeof *signal)) return Code::invalid_argument;
  return told_of(far_->put_signal(pe, *place, {static_cast<const std::byte*>(source), bytes}, *word,
                                  change_of(op, value)),
                 pe);
}

Status Group::put_row_far(void* dest, const FarRow& row, const void* source, uint64_t source_stride,
                          uint32_t pe) {
  const uint64_t reach = (row.count - 1) * row.stride + row.element_bytes;
  const auto place = far_place(dest, reach, pe);
  if (!place) return Code::invalid_argument;
  return told_of(far_->put_row(pe, *place, row, source, source_stride), pe);
}

Status Group::get_row_far(void* dest, uint64_t dest_stride, const void* source, const FarRow& row,
                          uint32_t pe) {
  const uint64_t reach = (row.count - 1) * row.stride + row.element_bytes;
  const auto place = far_place(source, reach, pe);
  if (!place) return Code::invalid_argument;
  return told_of(far_->get_row(pe, dest, dest_stride, *place, row), pe);
}

Result<uint64_t> Group::fetch_far(const void* word, const Change& change, uint32_t pe) const {
  const auto place = far_place(word, change.width, pe);
  if (!place || !is_aligned(place->offset, change.width)) return Status(Code::invalid_argument);
  FarAnswer answer;
  TRY(told_of(far_->start_change(pe, *place, change, &answer), pe));
  TRY(told_of(far_->finish(&answer), pe));
  return answer.value;
}

Status Group::change_far(void* word, const Change& change, uint32_t pe) const {
  const auto place = far_place(word, change.width, pe);
  if (!place || !is_aligned(place->offset, change.width)) return Code::invalid_argument;
  return told_of(far_->change(pe, *place, change), pe);
}

Status Group::tell(uint64_t* word, uint64_t value, uint32_t pe, SignalOp op) {
  if (std::byte* const there = at(word, sizeof value, pe)) {
    auto* const near = reinterpret_cast<uint64_t*>(there);
    if (op == SignalOp::set) {
      __atomic_store_n(near, value, __ATOMIC_RELEASE);
    } else {
      __atomic_fetch_add(near, value, __ATOMIC_ACQ_REL);
    }
    return {};
  }
  const auto place = far_place(word, sizeof value, pe);
  if (!place || !is_aligned(place->offset, sizeof value)) return Code::invalid_argument;
  return told_of(far_->tell(pe, *place, change_of(op, value)), pe);
}

Status Group::quiet_far() {
  const Status status = far_->quiet();
  const auto broken = far_->broken();
  return broken ? told_of(status, *broken) : status;
}

Status Group::quiet_far(uint32_t pe) {
  if (far_ == nullptr || pe >= size_) return Code::invalid_argument;
  return told_of(far_->quiet(pe), pe);
}

// The job tells whose end it was, if it was one.
bool Group::has_been_cut_off() {
  if (far_ == nullptr || !far_->broken()) return false;
  const engine::Time now = waits_.clock->now();
  const engine::Duration since = cut_off_at_.load(std::memory_order_relaxed);
  if (since != kNotLeft) return now.time_since_epoch() - since > limits::kFarNews;
  cut_off_at_.store(now.time_since_epoch(), std::memory_order_relaxed);
  return false;
}

// A row, or this PE alone.
PeSet Group::node_set() const {
  const PeSet alone = {me_, 1, 1};
  if (far_ == nullptr) return {0, 1, size_};
  std::vector<uint32_t> here;
  for (uint32_t pe = 0; pe < size_; ++pe) {
    if (is_near(pe)) here.push_back(pe);
  }
  if (here.size() == 1) return alone;
  const PeSet row = {here[0], int64_t{here[1]} - here[0], static_cast<uint32_t>(here.size())};
  for (uint32_t index = 0; index < row.size; ++index) {
    if (row.pe(index) != here[index]) return alone;
  }
  return row;
}

std::unique_ptr<Team> Group::make_team(uint32_t id, const PeSet& set, uint32_t index) const {
  std::unique_ptr<TeamNodes> nodes;
  if (far_ != nullptr) {
    nodes = std::make_unique<TeamNodes>();
    constexpr uint32_t kNone = UINT32_MAX;
    std::vector<uint32_t> places(member_.place().size, kNone);  // by node of the job
    for (uint32_t i = 0; i < set.size; ++i) {
      const uint32_t pe = set.pe(i);
      const uint32_t node = mapped_->nodes[pe];
      if (is_near(pe)) ++nodes->here;
      if (places[node] == kNone) {
        places[node] = static_cast<uint32_t>(nodes->firsts.size());
        nodes->firsts.push_back(pe);
      }
      nodes->node_of.push_back(places[node]);
      if (is_near(pe)) nodes->own = places[node];
    }
    if (nodes->firsts.size() == 1) nodes = nullptr;
  }
  return std::make_unique<Team>(id, set, index, std::move(nodes));
}

// Those of a node are counted by their first one, the first ones go round as sync_in_rounds() does,
// and let theirs go.
Status Group::sync_over_nodes(Team& team, uint64_t number) {
  const TeamNodes& nodes = *team.nodes();
  const uint32_t first = nodes.firsts[nodes.own];
  TeamControl& of_node = control_of(first).teams[team.id()];
  const auto waits_for = [&](const Flag& flag, uint64_t value) {
    return wait([&] { return __atomic_load_n(&flag.value, __ATOMIC_ACQUIRE) >= value; });
  };
  if (first != me_) {
    __atomic_fetch_add(&of_node.arrivals.value, 1, __ATOMIC_ACQ_REL);
    return waits_for(of_node.released, number);
  }
  TRY(waits_for(of_node.arrivals, number * (nodes.here - 1)));
  const auto count = static_cast<uint32_t>(nodes.firsts.size());
  for (uint32_t round = 0; (uint64_t{1} << round) < count; ++round) {
    const uint32_t to = nodes.firsts[(nodes.own + (uint32_t{1} << round)) % count];
    TRY(tell(&of_node.rounds[round].value, number, to));
    TRY(waits_for(of_node.rounds[round], number));
  }
  __atomic_store_n(&of_node.released.value, number, __ATOMIC_RELEASE);
  return {};
}

}  // namespace penstock::symm
