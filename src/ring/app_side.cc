#include <algorithm>

#include "penstock/ring.h"

namespace penstock::ring {

AppLane::AppLane(const Memory& memory, uint32_t lane, uint32_t first)
    : header_(&memory.header()),
      control_(&memory.control(lane)),
      submissions_(memory.submissions(lane)),
      completions_(memory.completions(lane)),
      lane_(lane),
      entries_(memory.geometry().entries),
      mask_(memory.geometry().entries - 1),
      pushed_(first),
      published_(first),
      taken_(first) {
  ASSERT(is_power_of_two(entries_));
}

void AppLane::announce() {
  Word used(header_->lanes_used);
  // Release pairs with the acquire in AgentRing::lanes_used(). Other lanes of this ring may
  // announce themselves at the same time, hence the loop.
  uint32_t seen = used.load(std::memory_order_relaxed);
  while (seen < lane_ + 1 && !used.compare_exchange_weak(seen, lane_ + 1, std::memory_order_release,
                                                         std::memory_order_relaxed)) {
  }
}

void AppLane::push(const Submission& entry) {
  ASSERT(unpublished() < entries_);
  submissions_[pushed_ & mask_] = entry;
  ++pushed_;
}

bool AppLane::publish(uint32_t count) {
  count = std::min(count, unpublished());
  if (count == 0) return false;
  published_ += count;
  ASSERT(unpublished() < entries_);
  // Sequentially consistent: releases the entries to the acquire in AgentLane::take(), and comes
  // before the look at agent_asleep in the single order (wake.h); pairs with AgentRing::arm().
  Word(control_->submission_tail).store(published_, std::memory_order_seq_cst);
  Word asleep(header_->agent_asleep);
  return asleep.load(std::memory_order_seq_cst) != 0 &&
         asleep.exchange(0, std::memory_order_relaxed) != 0;
}

uint32_t AppLane::ready() const {
  // Acquire pairs with the store in AgentLane::publish(). Bounded, whatever the agent wrote.
  const uint32_t tail = Word(control_->completion_tail).load(std::memory_order_acquire);
  return std::min(tail - taken_, entries_);
}

uint32_t AppLane::take(Completion* completions, uint32_t max) {
  const uint32_t count = std::min(ready(), max);
  for (uint32_t i = 0; i < count; ++i) completions[i] = completions_[(taken_ + i) & mask_];
  if (count == 0) return 0;
  ASSERT(count <= entries_);
  taken_ += count;
  // Release: the entries have been read before the agent may reuse them; pairs with the acquire in
  // AgentLane::room().
  Word(control_->completion_head).store(taken_, std::memory_order_release);
  return count;
}

bool AppLane::sleep(uint32_t count, uint64_t deadline, const std::atomic<bool>& stop) {
  ASSERT(count > 0 && count <= entries_);
  Word(control_->wake_at).store(taken_ + count, std::memory_order_relaxed);
  Word waiting(control_->waiting);
  // Sequentially consistent, as are the looks after it and the agent's accesses (wake.h); releases
  // wake_at.
  waiting.store(1, std::memory_order_seq_cst);
  const uint32_t tail = Word(control_->completion_tail).load(std::memory_order_seq_cst);
  bool in_time = true;
  if (std::min(tail - taken_, entries_) < count && !stop.load(std::memory_order_seq_cst)) {
    in_time = futex_wait(control_->waiting, 1, deadline);
  }
  waiting.store(0, std::memory_order_relaxed);
  return in_time;
}

bool AppLane::is_asleep() const {
  return Word(control_->waiting).load(std::memory_order_seq_cst) != 0;
}

void AppLane::rouse() {
  Word(control_->waiting).store(0, std::memory_order_seq_cst);
  futex_wake(control_->waiting);
}

}  // namespace penstock::ring
