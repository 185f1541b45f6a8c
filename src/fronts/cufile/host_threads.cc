#include "host_threads.h"

#include "limits.h"

#include <csignal>
#include <pthread.h>

namespace penstock::cufile {

HostThreads::~HostThreads() {
  {
    const std::lock_guard lock(mutex_);
    ASSERT(waiting_.empty());
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void HostThreads::submit(Operation& operation) {
  const std::lock_guard lock(mutex_);
  if (threads_.size() < limits::kHostThreads) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    threads_.emplace_back([this] { loop(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  operation.waiting = true;
  waiting_.push_back(operation);
  work_.notify_one();
}

void HostThreads::cancel(Operation& operation) {
  {
    const std::lock_guard lock(mutex_);
    if (!operation.waiting) return;
    operation.waiting = false;
    static_cast<ListNode&>(operation).unlink();
  }
  operation.status = Code::cancelled;
  operation.ended(operation);
}

void HostThreads::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Operation* const operation = waiting_.pop_front();
    if (operation == nullptr) {
      if (stop_) return;
      work_.wait(lock);
      continue;
    }
    operation->waiting = false;
    lock.unlock();
    body_(*operation);
    operation->ended(*operation);
    lock.lock();
  }
}

}  // namespace penstock::cufile
