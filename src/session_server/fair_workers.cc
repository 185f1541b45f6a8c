#include "fair_workers.h"

#include "limits.h"

#include "penstock/base.h"

namespace penstock::session_server {

FairWorkers::FairWorkers()
    : threads_(mutex_, {.name = "penstock-calls", .count_max = limits::kWorkers},
               [this](engine::WorkerThreads::Lock& lock) { return do_next(lock); }) {}

FairWorkers::~FairWorkers() {
  // A request that has to wait for its turn is taken by those that run now.
  threads_.stop();
  ASSERT(ends_.empty() && users_.empty() && requests_running_ == 0);
}

void FairWorkers::give_turn(uint32_t uid, User& user) {
  const uint32_t share = uid == 0 ? limits::kWorkersForRequests : limits::kWorkersPerUser;
  if (user.has_turn || user.waiting.empty() || user.running >= share) return;
  user.has_turn = true;
  turns_.push_back(uid);
}

void FairWorkers::submit_request(uint32_t uid, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    User& user = users_[uid];
    user.waiting.push_back(std::move(work));
    ++requests_waiting_;
    give_turn(uid, user);
  }
  // Without the lock, for which the thread that wakes would wait.
  threads_.wake();
}

FairWorkers::Work FairWorkers::take_request(uint32_t* uid) {
  ASSERT(!turns_.empty() && requests_waiting_ > 0);
  *uid = turns_.front();
  turns_.pop_front();
  User& user = users_.at(*uid);
  ASSERT(user.has_turn && !user.waiting.empty());
  user.has_turn = false;
  Work work = std::move(user.waiting.front());
  user.waiting.pop_front();
  ++user.running;
  --requests_waiting_;
  ++requests_running_;
  ASSERT(requests_running_ <= limits::kWorkersForRequests);
  give_turn(*uid, user);
  return work;
}

void FairWorkers::end_request(uint32_t uid) {
  User& user = users_.at(uid);
  ASSERT(user.running > 0 && requests_running_ > 0);
  --user.running;
  --requests_running_;
  give_turn(uid, user);
  if (user.running == 0 && user.waiting.empty()) users_.erase(uid);
  // One that was held back may start now.
  if (!turns_.empty()) threads_.wake();
}

void FairWorkers::submit_end(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    ends_.push_back(std::move(work));
  }
  // Without the lock, for which the thread that wakes would wait.
  threads_.wake();
}

bool FairWorkers::do_next(engine::WorkerThreads::Lock& lock) {
  if (!ends_.empty()) {
    Work work = std::move(ends_.front());
    ends_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    return true;
  }
  if (turns_.empty() || requests_running_ == limits::kWorkersForRequests) {
    ASSERT(requests_waiting_ == 0 || requests_running_ > 0);
    return false;
  }
  uint32_t uid = 0;
  Work work = take_request(&uid);
  lock.unlock();
  work();
  work = nullptr;
  lock.lock();
  end_request(uid);
  return true;
}

}  // namespace penstock::session_server
