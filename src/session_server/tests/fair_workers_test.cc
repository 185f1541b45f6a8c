#include "fair_workers.h"

#include "../limits.h"

#include <condition_variable>
#include <gtest/gtest.h>

namespace penstock::session_server {
namespace {

constexpr uint32_t kGreedy = 1000;
constexpr uint32_t kOther = 1001;

// Work that waits until it is let go.
class Held {
 public:
  std::function<void()> work() {
    return [this] {
      std::unique_lock lock(mutex_);
      ++running_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return free_; });
    };
  }
  void wait_for(uint32_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ >= count; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }
  uint32_t running() {
    const std::lock_guard lock(mutex_);
    return running_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t running_ = 0;
  bool free_ = false;
};

TEST(FairWorkers, keeps_threads_for_others_however_much_one_user_asks_for) {
  Held greedy, other, root;
  FairWorkers pool;
  constexpr uint32_t kMany = 10 * limits::kWorkers;
  for (uint32_t i = 0; i < kMany; ++i) pool.submit_request(kGreedy, greedy.work());
  greedy.wait_for(limits::kWorkersPerUser);
  pool.submit_request(kOther, other.work());
  pool.submit_request(0, root.work());
  pool.submit_end(root.work());
  other.wait_for(1);
  root.wait_for(2);
  EXPECT_EQ(greedy.running(), limits::kWorkersPerUser);
  for (Held* held : {&greedy, &other, &root}) held->let_go();
  // What waited follows.
  greedy.wait_for(kMany);
}

TEST(FairWorkers, does_all_that_was_submitted_before_it_ends) {
  Held first, rest;
  rest.let_go();
  {
    FairWorkers pool;
    for (uint32_t i = 0; i < limits::kWorkersPerUser; ++i) {
      pool.submit_request(kGreedy, first.work());
    }
    for (uint32_t i = 0; i < 100; ++i) pool.submit_request(kGreedy, rest.work());
    pool.submit_end(rest.work());
    first.let_go();
  }
  EXPECT_EQ(rest.running(), 101u);
}

}  // namespace
}  // namespace penstock::session_server
