#include "io_threads.h"

namespace penstock::local {

IoThreads::IoThreads(uint32_t count_max, std::function<void(route::HostIo&)> body)
    : count_max_(count_max), body_(std::move(body)) {
  ASSERT(count_max_ > 0);
}

IoThreads::~IoThreads() {
  {
    const std::lock_guard lock(mutex_);
    ASSERT(waiting_.empty());
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status IoThreads::submit(route::HostIo& io) {
  {
    const std::lock_guard lock(mutex_);
    ASSERT(!stop_ && !static_cast<ListNode&>(io).linked());
    if (waiting_count_ >= idle_ && threads_.size() < count_max_) TRY(add_thread());
    io.internal = this;
    waiting_.push_back(io);
    ++waiting_count_;
  }
  work_.notify_one();
  return Code::ok;
}

// With the lock held. A process that may have no thread more goes on with those that it has; one
// there must be.
Status IoThreads::add_thread() {
  Outcome<std::thread> started = start_thread("a thread for reads and writes", [this] { loop(); });
  if (started) {
    threads_.push_back(std::move(*started));
  } else if (threads_.empty()) {
    log::error("{}", started.error().message);
    return started.error().status;
  }
  return Code::ok;
}

bool IoThreads::withdraw(route::HostIo& io) {
  const std::lock_guard lock(mutex_);
  if (io.internal == nullptr) return false;
  ASSERT(io.internal == this && waiting_count_ > 0);
  static_cast<ListNode&>(io).unlink();
  io.internal = nullptr;
  --waiting_count_;
  return true;
}

void IoThreads::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    route::HostIo* const io = waiting_.pop_front();
    if (io == nullptr) {
      if (stop_) return;
      ++idle_;
      work_.wait(lock);
      --idle_;
      continue;
    }
    ASSERT(io->internal == this && waiting_count_ > 0);
    --waiting_count_;
    io->internal = nullptr;
    lock.unlock();
    body_(*io);
    lock.lock();
  }
}

}  // namespace penstock::local
