#include <algorithm>

#include "penstock/ring.h"

namespace penstock::ring {

AgentLane::AgentLane(const Memory& memory, uint32_t lane, uint32_t first)
    : control_(&memory.control(lane)),
      submissions_(memory.submissions(lane)),
      completions_(memory.completions(lane)),
      entries_(memory.geometry().entries),
      mask_(memory.geometry().entries - 1),
      taken_(first),
      posted_(first),
      published_(first) {
  ASSERT(is_power_of_two(entries_));
}

uint32_t AgentLane::room() const {
  // Acquire pairs with the release in AppLane::take(): a completion is overwritten only after it
  // was read. A head outside [posted - entries, posted] is a lie that gains nothing: the
  // application then loses its own completions, or is served nothing more, and never has more in
  // progress than there are entries.
  const uint32_t head = Word(control_->completion_head).load(std::memory_order_acquire);
  const uint32_t outstanding = std::max(taken_ - head, in_progress());
  return outstanding <= entries_ ? entries_ - outstanding : 0;
}

bool AgentLane::has_work() const {
  // Sequentially consistent: this is the second look of a loop about to sleep (wake.h).
  const uint32_t tail = Word(control_->submission_tail).load(std::memory_order_seq_cst);
  return tail != taken_ && room() > 0;
}

Result<uint32_t> AgentLane::take(Submission* entries, uint32_t max) {
  // Acquire pairs with the store in AppLane::publish().
  const uint32_t tail = Word(control_->submission_tail).load(std::memory_order_acquire);
  const uint32_t available = tail - taken_;
  if (available == 0) return 0u;
  if (available > entries_) return Code::bad_message;
  const uint32_t count = std::min({available, max, room()});
  for (uint32_t i = 0; i < count; ++i) entries[i] = submissions_[(taken_ + i) & mask_];
  // The compiler may not read the shared entries again instead of the copies.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  taken_ += count;
  // Whatever the application wrote: the completion queue has room for all that is in progress.
  ASSERT(in_progress() <= entries_);
  // Release: the entries have been copied before a producer that looks at the head reuses them.
  Word(control_->submission_head).store(taken_, std::memory_order_release);
  return count;
}

void AgentLane::post(const Completion& completion) {
  ASSERT(posted_ != taken_);
  completions_[posted_ & mask_] = completion;
  ++posted_;
  ASSERT(posted_ - published_ <= entries_);
}

bool AgentLane::publish() {
  if (posted_ == published_) return false;
  published_ = posted_;
  // Sequentially consistent: releases the completions to the acquire in AppLane::ready(), and comes
  // before the look at `waiting` in the single order (wake.h); pairs with AppLane::sleep().
  Word(control_->completion_tail).store(posted_, std::memory_order_seq_cst);
  Word waiting(control_->waiting);
  if (waiting.load(std::memory_order_seq_cst) == 0) return false;
  const uint32_t wanted = Word(control_->wake_at).load(std::memory_order_relaxed);
  if (static_cast<int32_t>(posted_ - wanted) < 0) return false;
  if (waiting.exchange(0, std::memory_order_relaxed) == 0) return false;
  futex_wake(control_->waiting);
  return true;
}

uint32_t AgentRing::lanes_used() const {
  // Acquire pairs with the release in AppLane::announce().
  const uint32_t used = Word(memory_.header().lanes_used).load(std::memory_order_acquire);
  return std::min(used, memory_.geometry().lanes);
}

void AgentRing::arm() {
  // Sequentially consistent (wake.h); pairs with AppLane::publish().
  Word(memory_.header().agent_asleep).store(1, std::memory_order_seq_cst);
}

bool AgentRing::is_armed() const {
  // Acquire pairs with the exchange in AppLane::publish(), behind which the tail has moved. What
  // the application writes here harms itself only.
  return Word(memory_.header().agent_asleep).load(std::memory_order_acquire) != 0;
}

void AgentRing::disarm() {
  Word(memory_.header().agent_asleep).store(0, std::memory_order_relaxed);
}

}  // namespace penstock::ring
