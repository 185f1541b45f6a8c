#include "host_threads.h"

#include "limits.h"

namespace penstock::cufile {

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
  {
    const std::lock_guard lock(mutex_);
    operation.status = add_thread();
    if (operation.status.ok()) {
      operation.waiting = true;
      waiting_.push_back(operation);
      work_.notify_one();
      return;
    }
  }
  operation.ended(operation);
}

// With the lock held. As many as there are will do, if there is one.
Status HostThreads::add_thread() {
  if (threads_.size() == limits::kHostThreads) return Code::ok;
  Outcome<std::thread> started = start_thread("a thread for host memory", [this] { loop(); });
  if (started) {
    threads_.push_back(std::move(*started));
  } else if (threads_.empty()) {
    log::error("cufile: {}", started.error().message);
    return started.error().status;
  }
  return Code::ok;
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
