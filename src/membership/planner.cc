#include "keeper_thread.h"

namespace penstock::membership {

Planner::Planner(uint64_t seed, std::function<void(KeeperJob&)> planned)
    : planned_(std::move(planned)), random_(seed), thread_("planner", [this] { run(); }) {}

Planner::~Planner() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  ASSERT(job_ == nullptr);
}

bool Planner::plan(KeeperJob& job, controller::State state) {
  {
    const std::lock_guard lock(mutex_);
    if (job_ != nullptr) return false;
    job_ = &job;
    state_ = std::move(state);
  }
  wake_.notify_all();
  return true;
}

void Planner::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || job_ != nullptr; });
    if (job_ == nullptr) return;
    const controller::State state = std::move(state_);
    KeeperJob& job = *job_;
    lock.unlock();
    const auto& wanted = std::get<controller::TablePlan>(job.request);
    job.plan.emplace(controller::plan_table(state, wanted, random_));
    // The next may be planned as soon as this one is ordered.
    lock.lock();
    job_ = nullptr;
    lock.unlock();
    planned_(job);
    lock.lock();
  }
}

}  // namespace penstock::membership
