#include "session_server.h"

namespace penstock::agent {

WorkerPool::WorkerPool() {
  for (uint32_t i = 0; i < limits::kWorkers; ++i) threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    work_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::submit_request(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(work));
  }
  // Whoever wakes does not have to wait for the lock once more.
  work_.notify_one();
}

void WorkerPool::submit_end(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    ends_.push_back(std::move(work));
  }
  // Whoever wakes does not have to wait for the lock once more.
  work_.notify_one();
}

void WorkerPool::run() {
  const auto may_start_request = [this] {
    return !requests_.empty() && requests_running_ < limits::kWorkersForRequests;
  };
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stop_ || !ends_.empty() || may_start_request(); });
    const bool is_request = ends_.empty();
    if (is_request && !may_start_request()) {
      // Asked to stop; a request that has to wait for its turn is taken by those that run now.
      if (requests_.empty() || requests_running_ > 0) return;
    }
    auto& queue = is_request ? requests_ : ends_;
    std::function<void()> work = std::move(queue.front());
    queue.pop_front();
    if (is_request) ++requests_running_;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    if (is_request) {
      --requests_running_;
      // A request that was held back may start now.
      if (!requests_.empty()) work_.notify_one();
    }
  }
}

}  // namespace penstock::agent
