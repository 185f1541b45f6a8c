// engine::Thread and what it waits with: the same on the operating system's threads and on fibers.
#include <gtest/gtest.h>
#include <optional>
#include <vector>

#include "penstock/sim.h"

namespace penstock::sim {
namespace {

using engine::Condition;
using engine::Mutex;
using engine::SharedMutex;
using engine::Thread;
using std::chrono::hours;
using std::chrono::milliseconds;

class ThreadsConformance : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) world_.emplace(17);
  }
  const engine::Clock& clock() {
    return world_ ? static_cast<const engine::Clock&>(world_->clock()) : engine::system_clock();
  }

 private:
  std::optional<SimWorld> world_;
};

INSTANTIATE_TEST_SUITE_P(All, ThreadsConformance, testing::Bool(),
                         [](const auto& one) { return one.param ? "simulated" : "system"; });

TEST_P(ThreadsConformance, a_mutex_lets_one_thread_in_at_a_time) {
  Mutex mutex;
  int inside = 0;
  int visits = 0;
  bool crowded = false;
  std::vector<Thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back("visitor", [&] {
      for (int visit = 0; visit < 200; ++visit) {
        const std::lock_guard lock(mutex);
        crowded |= ++inside != 1;
        {
          // A point to lose the processor at.
          Mutex other;
          const std::lock_guard pause(other);
        }
        --inside;
        ++visits;
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_FALSE(crowded);
  EXPECT_EQ(visits, 800);
}

TEST_P(ThreadsConformance, try_lock_fails_while_another_thread_has_it) {
  Mutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  bool got = true;
  Thread other("other", [&] { got = mutex.try_lock(); });
  other.join();
  EXPECT_FALSE(got);
  mutex.unlock();
  Thread later("later", [&] {
    got = mutex.try_lock();
    if (got) mutex.unlock();
  });
  later.join();
  EXPECT_TRUE(got);
}

TEST_P(ThreadsConformance, a_condition_wakes_who_waits_for_what_became_true) {
  Mutex mutex;
  Condition changed;
  int turn = 0;
  std::vector<int> order;
  std::vector<Thread> threads;
  for (int i = 2; i >= 0; --i) {
    threads.emplace_back("in turn", [&, i] {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return turn == i; });
      order.push_back(i);
      ++turn;
      changed.notify_all();
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST_P(ThreadsConformance, a_wait_with_a_bound_ends_when_nothing_comes) {
  Mutex mutex;
  Condition never;
  std::unique_lock lock(mutex);
  const engine::Time start = clock().now();
  EXPECT_FALSE(never.wait_for(lock, milliseconds(20), [] { return false; }));
  EXPECT_GE(clock().now() - start, milliseconds(20));
  EXPECT_TRUE(lock.owns_lock());
}

TEST_P(ThreadsConformance, a_wait_with_a_bound_ends_when_something_comes) {
  Mutex mutex;
  Condition changed;
  bool done = false;
  Thread other("other", [&] {
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, hours(1), [&] { return done; }));
  lock.unlock();
  other.join();
}

TEST_P(ThreadsConformance, a_shared_mutex_lets_readers_in_together_and_writers_alone) {
  SharedMutex mutex;
  Mutex counting;
  Condition both;
  int readers = 0;
  bool written = false;
  bool early = false;
  std::vector<Thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back("reader", [&] {
      const std::shared_lock reading(mutex);
      std::unique_lock lock(counting);
      ++readers;
      both.notify_all();
      // Ends only when both are inside at once.
      both.wait(lock, [&] { return readers == 2; });
      early |= written;
    });
  }
  {
    std::unique_lock lock(counting);
    both.wait(lock, [&] { return readers == 2; });
  }
  threads.emplace_back("writer", [&] {
    const std::unique_lock writing(mutex);
    written = true;
  });
  for (Thread& thread : threads) thread.join();
  EXPECT_TRUE(written);
  // Where a reader sees it, the writer came first, or was inside with a reader.
  if (GetParam()) {
    EXPECT_FALSE(early);
  }
}

TEST_P(ThreadsConformance, a_thread_can_be_moved_and_is_joined_once) {
  int ran = 0;
  Thread first("first", [&] { ++ran; });
  Thread second = std::move(first);
  EXPECT_FALSE(first.joinable());
  ASSERT_TRUE(second.joinable());
  second.join();
  EXPECT_FALSE(second.joinable());
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace penstock::sim
