#include "host_threads.h"

#include "limits.h"

#include <csignal>
#include <exception>
#include <pthread.h>

namespace penstock::cufile {

bool start_thread(std::thread* thread, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    *thread = std::thread(std::move(body));
  } catch (const std::exception& error) {
    log::error("cufile: no thread can be started: {}", error.what());
    started = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

HostThreads::HostThreads(std::function<void(Operation&)> body) : body_(std::move(body)) {
  threads_.reserve(limits::kHostThreads);
}

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
  if (hand_over(operation)) return;
  operation.status = Code::no_memory;
  operation.ended(operation);
}

bool HostThreads::hand_over(Operation& operation) {
  const std::lock_guard lock(mutex_);
  if (threads_.size() < limits::kHostThreads) {
    std::thread thread;
    if (start_thread(&thread, [this] { loop(); })) threads_.push_back(std::move(thread));
  }
  if (threads_.empty()) return false;
  operation.waiting = true;
  waiting_.push_back(operation);
  work_.notify_one();
  return true;
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
