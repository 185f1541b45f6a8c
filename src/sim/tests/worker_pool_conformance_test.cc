// engine::WorkerPool: the same on the operating system's threads and on fibers.
#include <csignal>
#include <gtest/gtest.h>
#include <optional>
#include <pthread.h>
#include <string>
#include <tuple>
#include <vector>

#include "penstock/sim.h"

namespace penstock::sim {
namespace {

using engine::Condition;
using engine::Mutex;
using engine::WorkerOptions;
using engine::WorkerPool;
using engine::WorkerThreads;
using Start = WorkerOptions::Start;

struct Item : ListNode {
  int number = 0;
};

std::vector<Item> items(size_t count) {
  std::vector<Item> made(count);
  for (size_t i = 0; i < count; ++i) made[i].number = static_cast<int>(i);
  return made;
}

// A body that keeps each item until it is let go.
class Gate {
 public:
  WorkerPool::Body body() {
    return [this](ListNode& item) {
      std::unique_lock lock(mutex_);
      begun_.push_back(static_cast<Item&>(item).number);
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
      ++ended_;
      changed_.notify_all();
    };
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_begun(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_.size() >= count; });
  }
  void wait_for_ended(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ >= count; });
  }
  std::vector<int> begun() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::vector<int> begun_;
  size_t ended_ = 0;
  bool open_ = false;
};

class WorkerPoolConformance : public testing::TestWithParam<std::tuple<bool, Start>> {
 protected:
  void SetUp() override {
    if (std::get<0>(GetParam())) world_.emplace(17);
  }
  static WorkerOptions options(uint32_t count_max) {
    return {"pool", "a thread for a test", count_max, std::get<1>(GetParam())};
  }

 private:
  std::optional<SimWorld> world_;
};

std::string name_of(const testing::TestParamInfo<std::tuple<bool, Start>>& one) {
  const auto [simulated, start] = one.param;
  return std::string(simulated ? "simulated" : "system") +
         (start == Start::at_once ? "_at_once" : "_on_demand");
}

INSTANTIATE_TEST_SUITE_P(All, WorkerPoolConformance,
                         testing::Combine(testing::Bool(),
                                          testing::Values(Start::at_once, Start::on_demand)),
                         name_of);

TEST_P(WorkerPoolConformance, one_thread_takes_items_in_their_order) {
  std::vector<Item> all = items(20);
  Gate gate;
  WorkerPool pool(options(1), gate.body());
  for (Item& item : all) EXPECT_TRUE(pool.submit(item).ok());
  gate.open();
  gate.wait_for_ended(all.size());
  const std::vector<int> begun = gate.begun();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(begun[static_cast<size_t>(i)], i);
}

TEST_P(WorkerPoolConformance, all_threads_work_at_once_and_no_more) {
  std::vector<Item> all = items(6);
  Gate gate;
  WorkerPool pool(options(3), gate.body());
  for (Item& item : all) EXPECT_TRUE(pool.submit(item).ok());
  // Ends only when three are at work together.
  gate.wait_for_begun(3);
  EXPECT_EQ(gate.begun().size(), 3u);
  gate.open();
  gate.wait_for_ended(6);
}

TEST_P(WorkerPoolConformance, refuses_with_busy_what_would_wait_beyond_the_bound) {
  std::vector<Item> all = items(4);
  Gate gate;
  WorkerPool pool(options(1), gate.body(), 2);
  EXPECT_TRUE(pool.submit(all[0]).ok());
  gate.wait_for_begun(1);
  EXPECT_TRUE(pool.submit(all[1]).ok());
  EXPECT_TRUE(pool.submit(all[2]).ok());
  EXPECT_EQ(pool.submit(all[3]).code(), Code::busy);
  EXPECT_FALSE(all[3].linked());
  gate.open();
  gate.wait_for_ended(3);
  EXPECT_TRUE(pool.submit(all[3]).ok());
  gate.wait_for_ended(4);
}

TEST_P(WorkerPoolConformance, withdraws_what_has_not_begun_only) {
  std::vector<Item> all = items(4);
  Gate gate;
  WorkerPool pool(options(1), gate.body());
  for (Item& item : all) EXPECT_TRUE(pool.submit(item).ok());
  gate.wait_for_begun(1);
  EXPECT_FALSE(pool.withdraw(all[0]));
  EXPECT_TRUE(pool.withdraw(all[2]));
  EXPECT_FALSE(pool.withdraw(all[2]));
  gate.open();
  gate.wait_for_ended(3);
  EXPECT_EQ(gate.begun(), (std::vector<int>{0, 1, 3}));
}

TEST_P(WorkerPoolConformance, leaves_an_item_that_is_in_another_list_alone) {
  std::vector<Item> all = items(1);
  Gate gate;
  WorkerPool pool(options(1), gate.body());
  IntrusiveList<Item> elsewhere;
  elsewhere.push_back(all[0]);
  EXPECT_FALSE(pool.withdraw(all[0]));
  EXPECT_EQ(elsewhere.pop_front(), &all[0]);
}

TEST_P(WorkerPoolConformance, stop_refuses_what_waits_and_waits_for_what_has_begun) {
  std::vector<Item> all = items(4);
  Gate gate;
  WorkerPool pool(options(1), gate.body());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.submit(all[static_cast<size_t>(i)]).ok());
  gate.wait_for_begun(1);
  std::vector<int> refused;
  pool.stop([&](ListNode& item) {
    refused.push_back(static_cast<Item&>(item).number);
    gate.open();
  });
  gate.wait_for_ended(1);
  EXPECT_EQ(refused, (std::vector<int>{1, 2}));
  EXPECT_EQ(gate.begun(), (std::vector<int>{0}));
  EXPECT_EQ(pool.submit(all[3]).code(), Code::closed);
  pool.stop([](ListNode&) { FAIL(); });
}

TEST_P(WorkerPoolConformance, an_item_may_be_submitted_again_by_its_body) {
  Item item;
  Mutex mutex;
  Condition done;
  int left = 10;
  WorkerPool* own = nullptr;
  WorkerPool pool(options(2), [&](ListNode& node) {
    const std::lock_guard lock(mutex);
    if (--left > 0) {
      EXPECT_TRUE(own->submit(node).ok());
    } else {
      done.notify_all();
    }
  });
  own = &pool;
  EXPECT_TRUE(pool.submit(item).ok());
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return left == 0; });
}

TEST_P(WorkerPoolConformance, threads_finish_what_may_begin_before_they_stop) {
  Mutex mutex;
  int left = 50;
  WorkerThreads threads(mutex, options(3), [&](WorkerThreads::Lock& lock) {
    if (left == 0) return false;
    --left;
    lock.unlock();
    lock.lock();
    return true;
  });
  {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(threads.prepare(0).ok());
  }
  threads.wake();
  threads.stop();
  EXPECT_EQ(left, 0);
}

// Of the operating system's threads alone.

TEST(WorkerPool, is_busy_on_demand_only_while_there_is_no_thread_at_all) {
  std::vector<Item> all = items(3);
  Gate gate;
  WorkerPool pool({"pool", "a thread for a test", 2, Start::on_demand}, gate.body());
  pthread_attr_t before;
  ASSERT_EQ(::pthread_getattr_default_np(&before), 0);
  pthread_attr_t too_much = before;
  ASSERT_EQ(::pthread_attr_setstacksize(&too_much, size_t{1} << 46), 0);

  ASSERT_EQ(::pthread_setattr_default_np(&too_much), 0);
  EXPECT_EQ(pool.submit(all[0]).code(), Code::busy);
  EXPECT_FALSE(all[0].linked());
  ASSERT_EQ(::pthread_setattr_default_np(&before), 0);
  EXPECT_TRUE(pool.submit(all[0]).ok());
  gate.wait_for_begun(1);

  ASSERT_EQ(::pthread_setattr_default_np(&too_much), 0);
  EXPECT_TRUE(pool.submit(all[1]).ok());
  ASSERT_EQ(::pthread_setattr_default_np(&before), 0);
  EXPECT_EQ(gate.begun().size(), 1u);
  gate.open();
  gate.wait_for_ended(2);
}

TEST(WorkerPool, takes_no_signals_on_demand_and_the_starters_at_once) {
  for (const Start start : {Start::at_once, Start::on_demand}) {
    Item item;
    Mutex mutex;
    Condition done;
    bool ended = false;
    sigset_t in_thread;
    WorkerPool pool({"pool", "a thread for a test", 1, start}, [&](ListNode&) {
      const std::lock_guard lock(mutex);
      ::pthread_sigmask(SIG_SETMASK, nullptr, &in_thread);
      ended = true;
      done.notify_all();
    });
    ASSERT_TRUE(pool.submit(item).ok());
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return ended; });
    EXPECT_EQ(sigismember(&in_thread, SIGBUS), start == Start::on_demand ? 1 : 0);
  }
}

}  // namespace
}  // namespace penstock::sim
