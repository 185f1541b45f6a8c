#include "penstock/inodes/gate.h"

namespace penstock::inodes {

bool WriteGate::wait(Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  if ((state_.load(std::memory_order_relaxed) & kClosed) == 0) return false;
  ASSERT(!waiter.waiting_ && waiter.loop != nullptr);
  waiter.waiting_ = true;
  waiters_.push_back(waiter);
  return true;
}

bool WriteGate::cancel(Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  if (!waiter.waiting_) return false;
  waiter.waiting_ = false;
  waiter.unlink();
  return true;
}

void WriteGate::close(Waiter& drained) {
  const std::lock_guard lock(mutex_);
  ASSERT(drain_ == nullptr);
  drain_ = &drained;
  const uint64_t before = state_.fetch_or(kClosed, std::memory_order_acq_rel);
  ASSERT((before & kClosed) == 0);
  if (before != 0) return;
  drain_ = nullptr;
  drained.loop->complete_remote(drained, Code::ok);
}

void WriteGate::drained() {
  const std::lock_guard lock(mutex_);
  // Writers that only looked in may come here late, or again.
  if (drain_ == nullptr || (state_.load(std::memory_order_acquire) & ~kClosed) != 0) return;
  Waiter* waiter = std::exchange(drain_, nullptr);
  waiter->loop->complete_remote(*waiter, Code::ok);
}

void WriteGate::open() {
  const std::lock_guard lock(mutex_);
  ASSERT(drain_ == nullptr);
  const uint64_t before = state_.fetch_and(~kClosed, std::memory_order_release);
  ASSERT((before & kClosed) != 0);
  while (Waiter* waiter = waiters_.pop_front()) {
    waiter->waiting_ = false;
    waiter->loop->complete_remote(*waiter, Code::ok);
  }
}

}  // namespace penstock::inodes
