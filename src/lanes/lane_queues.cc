#include "penstock/lanes/lane_queues.h"

namespace penstock::lanes {

LaneQueues::LaneQueues(RingUse use, uint32_t index)
    : memory_(std::move(use.memory)), queues_(memory_->layout, index), epoch_(use.epoch) {
  ASSERT(memory_->wake);
  queues_.announce();
}

void LaneQueues::wake() {
  // As wake.h: the waiter sets its word and then looks at roused_; this side sets roused_ and then
  // looks at the word.
  roused_.store(true, std::memory_order_seq_cst);
  const std::lock_guard lock(mutex_);
  if (queues_.is_asleep()) queues_.rouse();
}

void LaneQueues::rouse() {
  roused_.store(true, std::memory_order_seq_cst);
  const std::lock_guard lock(mutex_);
  queues_.rouse();
}

LaneQueues::Sleeper LaneQueues::replace(RingUse use, uint32_t index) {
  ASSERT(use.memory != nullptr);
  Sleeper old = sleeper();
  {
    const std::lock_guard lock(mutex_);
    memory_ = std::move(use.memory);
    queues_ = ring::AppLane(memory_->layout, index);
    epoch_ = use.epoch;
  }
  queues_.announce();
  return old;
}

void LaneQueues::rouse(Sleeper& old) {
  roused_.store(true, std::memory_order_seq_cst);
  old.queues_.rouse();
}

}  // namespace penstock::lanes
