// Fibers: threads that the seed interleaves, beside loops on virtual time.
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "penstock/sim.h"

namespace penstock::sim {
namespace {

using engine::Condition;
using engine::Mutex;
using engine::Thread;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A timer of the loop that a thread waits for.
Status wait_in(engine::Loop& loop, Duration duration) {
  struct Wait : engine::Timer {
    engine::Op* done = nullptr;
  } wait;
  return engine::thread_caller().call(loop, [&](engine::Op& done) {
    wait.done = &done;
    wait.completion = [](engine::Op& op) {
      engine::Op& end = *static_cast<Wait&>(op).done;
      end.completion(end);
    };
    loop.start(wait, loop.now() + duration);
  });
}

std::string interleaving(uint64_t seed, uint64_t* hash = nullptr) {
  SimWorld world(seed);
  SimLoop loop(world);
  Mutex mutex;
  std::string log;
  std::vector<Thread> threads;
  for (const char name : {'a', 'b', 'c'}) {
    threads.emplace_back(std::string(1, name), [&, name] {
      for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(wait_in(loop, milliseconds(1)).ok());
        const std::lock_guard lock(mutex);
        log += name;
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  if (hash != nullptr) *hash = world.trace_hash();
  return log;
}

TEST(SimThreads, the_seed_decides_who_goes_on) {
  std::set<std::string> logs;
  for (uint64_t seed = 1; seed <= 20; ++seed) logs.insert(interleaving(seed));
  EXPECT_GT(logs.size(), 10U);
}

TEST(SimThreads, the_same_seed_gives_the_same_trace) {
  uint64_t first = 0;
  uint64_t again = 0;
  uint64_t other = 0;
  EXPECT_EQ(interleaving(5, &first), interleaving(5, &again));
  interleaving(6, &other);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(SimThreads, time_stands_still_while_a_thread_can_go_on) {
  SimWorld world(1);
  const Time start = world.now();
  int turns = 0;
  Thread busy("busy", [&] {
    Mutex mutex;
    for (; turns < 1000; ++turns) {
      const std::lock_guard lock(mutex);
    }
  });
  busy.join();
  EXPECT_EQ(turns, 1000);
  EXPECT_EQ(world.now(), start);
}

TEST(SimThreads, a_thread_may_lose_its_processor_while_time_passes) {
  SimWorld world(1);
  world.stall_permille = 1000;
  const Time start = world.now();
  Thread stalled("stalled", [&] {
    Mutex mutex;
    for (int i = 0; i < 100; ++i) {
      const std::lock_guard lock(mutex);
    }
  });
  stalled.join();
  EXPECT_GT(world.now(), start + world.stall_max);
  EXPECT_LT(world.now(), start + 100 * world.stall_max);
}

TEST(SimThreads, sleeping_threads_let_time_pass) {
  SimWorld world(1);
  const Time start = world.now();
  std::vector<Time> woke(2);
  Thread longer("longer", [&] {
    world.run_for(hours(3));
    woke[0] = world.now();
  });
  Thread shorter("shorter", [&] {
    world.run_for(hours(1));
    woke[1] = world.now();
  });
  longer.join();
  shorter.join();
  EXPECT_EQ(woke[0], start + hours(3));
  EXPECT_EQ(woke[1], start + hours(1));
}

TEST(SimThreads, a_loop_may_have_a_thread_of_its_own) {
  SimWorld world(1);
  SimLoop loop(world, LoopDriver::thread);
  Thread shard("shard", [&] { loop.run(); });
  const Time start = world.now();
  EXPECT_TRUE(wait_in(loop, seconds(2)).ok());
  EXPECT_EQ(world.now(), start + seconds(2));
  loop.stop();
  shard.join();
}

TEST(SimThreads, a_loop_waits_for_a_lock_while_other_loops_go_on) {
  SimWorld world(1);
  SimLoop waits(world);
  SimLoop works(world);
  Mutex mutex;
  mutex.lock();
  struct Locking : engine::Op {
    Mutex* mutex = nullptr;
    bool locked = false;
  } locking;
  locking.mutex = &mutex;
  locking.completion = [](engine::Op& op) {
    auto& self = static_cast<Locking&>(op);
    const std::lock_guard lock(*self.mutex);
    self.locked = true;
  };
  waits.complete_remote(locking, Code::ok);
  EXPECT_TRUE(wait_in(works, seconds(1)).ok());
  EXPECT_FALSE(locking.locked);
  mutex.unlock();
  EXPECT_TRUE(world.run_until([&] { return locking.locked; }));
}

TEST(SimThreadsDeathTest, a_deadlock_says_what_each_thread_waits_for) {
  EXPECT_DEATH(
      {
        SimWorld world(4711);
        Mutex first;
        Mutex second;
        Thread one("one", [&] {
          const std::lock_guard a(first);
          world.run_for(seconds(1));
          const std::lock_guard b(second);
        });
        Thread two("two", [&] {
          const std::lock_guard a(second);
          world.run_for(seconds(1));
          const std::lock_guard b(first);
        });
        one.join();
      },
      "seed 4711.*deadlock.*\n.*the test itself waits for the end of a thread.*one.*\n"
      ".*\\(one\\) waits for a mutex.*thread 3 \\(two\\) has\n"
      ".*\\(two\\) waits for a mutex.*thread 2 \\(one\\) has");
}

TEST(SimThreadsDeathTest, a_loop_that_blocks_is_a_fault) {
  EXPECT_DEATH(
      {
        SimWorld world(1);
        SimLoop loop(world);
        struct Blocking : engine::Op {
          SimWorld* world = nullptr;
        } blocking;
        blocking.world = &world;
        blocking.completion = [](engine::Op& op) {
          static_cast<Blocking&>(op).world->run_for(seconds(1));
        };
        loop.complete_remote(blocking, Code::ok);
        world.run_for(seconds(2));
      },
      "brief");
}

}  // namespace
}  // namespace penstock::sim
