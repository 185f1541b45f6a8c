#include "io_threads.h"

#include <csignal>
#include <pthread.h>
#include <system_error>

namespace penstock::route {

IoThreads::IoThreads(uint32_t count_max, std::function<void(HostIo&)> body)
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

void IoThreads::submit(HostIo& io) {
  {
    const std::lock_guard lock(mutex_);
    io.internal = this;
    waiting_.push_back(io);
    ++waiting_count_;
    if (waiting_count_ > idle_ && threads_.size() < count_max_) start_thread();
  }
  work_.notify_one();
}

// With the lock held. A process that may have no thread more goes on with those that it has; one
// there must be.
void IoThreads::start_thread() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    threads_.emplace_back([this] { loop(); });
  } catch (const std::system_error& error) {
    if (threads_.empty()) log::error("start a thread for reads and writes: {}", error.what());
    ASSERT(!threads_.empty());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool IoThreads::withdraw(HostIo& io) {
  const std::lock_guard lock(mutex_);
  if (io.internal == nullptr) return false;
  static_cast<ListNode&>(io).unlink();
  io.internal = nullptr;
  --waiting_count_;
  return true;
}

void IoThreads::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    HostIo* const io = waiting_.pop_front();
    if (io == nullptr) {
      if (stop_) return;
      ++idle_;
      work_.wait(lock);
      --idle_;
      continue;
    }
    --waiting_count_;
    io->internal = nullptr;
    lock.unlock();
    body_(*io);
    lock.lock();
  }
}

}  // namespace penstock::route
