#include "penstock/engine/worker_pool.h"

namespace penstock::engine {

WorkerThreads::WorkerThreads(Mutex& mutex, WorkerOptions options, DoNext do_next)
    : mutex_(mutex), options_(std::move(options)), do_next_(std::move(do_next)) {
  ASSERT(options_.count_max > 0);
  threads_.reserve(options_.count_max);
  if (options_.start == WorkerOptions::Start::on_demand) return;
  for (uint32_t i = 0; i < options_.count_max; ++i) {
    threads_.emplace_back(options_.name, [this] { run(); });
  }
}

Status WorkerThreads::prepare(uint64_t waiting) {
  ASSERT(!stop_);
  if (waiting < idle_ || threads_.size() == options_.count_max) return Code::ok;
  return add_thread();
}

Status WorkerThreads::add_thread() {
  Outcome<Thread> started = Thread::start(options_.name, options_.what, [this] { run(); });
  if (started) {
    threads_.push_back(std::move(*started));
  } else if (threads_.empty()) {
    log::error("{}", started.error().message);
    return started.error().status;
  }
  return Code::ok;
}

void WorkerThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  // Nothing adds to them any more.
  for (Thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerThreads::run() {
  Lock lock(mutex_);
  while (true) {
    if (do_next_(lock)) continue;
    if (stop_) return;
    ++idle_;
    // No deadline: an idle thread has nothing else to do, and stop() wakes it.
    wake_.wait(lock);
    --idle_;
  }
}

WorkerPool::WorkerPool(WorkerOptions options, Body body, uint64_t waiting_max)
    : body_(std::move(body)),
      waiting_max_(waiting_max),
      threads_(mutex_, std::move(options),
               [this](WorkerThreads::Lock& lock) { return do_next(lock); }) {}

WorkerPool::~WorkerPool() {
  stop([](ListNode&) { ASSERT(false); });
}

Status WorkerPool::submit(ListNode& item) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Code::closed;
    if (waiting_count_ >= waiting_max_) return Code::busy;
    TRY(threads_.prepare(waiting_count_));
    waiting_.push_back(item);
    ++waiting_count_;
  }
  threads_.wake();
  return Code::ok;
}

bool WorkerPool::withdraw(const ListNode& item) {
  const std::lock_guard lock(mutex_);
  for (ListNode* at = waiting_.first(); at != nullptr; at = waiting_.next(*at)) {
    if (at != &item) continue;
    ASSERT(waiting_count_ > 0);
    at->unlink();
    --waiting_count_;
    return true;
  }
  return false;
}

void WorkerPool::stop(const std::function<void(ListNode&)>& refuse) {
  IntrusiveList<ListNode> refused;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    refused.take_all(waiting_);
    waiting_count_ = 0;
  }
  while (ListNode* const item = refused.pop_front()) refuse(*item);
  threads_.stop();
}

bool WorkerPool::do_next(WorkerThreads::Lock& lock) {
  ListNode* const item = waiting_.pop_front();
  if (item == nullptr) return false;
  ASSERT(waiting_count_ > 0);
  --waiting_count_;
  lock.unlock();
  body_(*item);
  lock.lock();
  return true;
}

}  // namespace penstock::engine
