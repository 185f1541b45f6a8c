#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/engine.h"

namespace penstock::engine {
namespace {

class LoopTest : public testing::Test {
 protected:
  SeededRandom random_{1};
  FutexParker parker_{system_clock()};
  Loop loop_{system_clock(), random_, parker_};
};

struct Recorder : Op {
  std::vector<int>* log = nullptr;
  int value = 0;
  Recorder() = default;
  void set(std::vector<int>& target, int number) {
    log = &target;
    value = number;
    completion = [](Op& op) {
      auto& self = static_cast<Recorder&>(op);
      self.log->push_back(self.value);
    };
  }
};

TEST_F(LoopTest, completes_in_order_and_only_inside_poll) {
  std::vector<int> log;
  Recorder ops[3];
  for (int i = 0; i < 3; ++i) {
    ops[i].set(log, i);
    loop_.complete(ops[i], Code::ok);
  }
  EXPECT_TRUE(log.empty());
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(loop_.poll());
}

// As whoever closes a socket within its loop waits for what is under way there.
TEST_F(LoopTest, a_completion_may_poll_until_another_of_its_turn_has_run) {
  struct Waits : Op {
    Loop* loop = nullptr;
    const std::vector<int>* log = nullptr;
    int turns = 0;
  } waits;
  std::vector<int> log;
  waits.loop = &loop_;
  waits.log = &log;
  waits.completion = [](Op& op) {
    auto& self = static_cast<Waits&>(op);
    while (self.log->empty() && self.turns < 10) {
      ++self.turns;
      self.loop->poll();
    }
  };
  Recorder other;
  other.set(log, 1);
  loop_.complete(waits, Code::ok);
  loop_.complete(other, Code::ok);
  EXPECT_TRUE(loop_.poll());
  EXPECT_EQ(log, (std::vector<int>{1}));
  EXPECT_EQ(waits.turns, 1);
  EXPECT_FALSE(loop_.poll());
}

// A clock that every look moves by a microsecond, and a sleep by what the test says.
class SlowClock final : public Clock {
 public:
  Time now() const override { return Time(looked_ += std::chrono::microseconds(1)); }
  WallTime wall() const override { return {}; }
  void pass(Duration time) { looked_ += time; }

 private:
  mutable Duration looked_{};
};

class ScriptedParker final : public Parker {
 public:
  void park(Time) override { on_park(); }
  void unpark() override {}
  std::function<void()> on_park;
};

struct CountingPoller : Poller {
  int polls = 0;
  bool poll() override {
    ++polls;
    return false;
  }
};

TEST(Loop, spins_before_it_sleeps_while_that_pays) {
  SlowClock clock;
  SeededRandom random(1);
  ScriptedParker parker;
  Loop loop(clock, random, parker, std::chrono::microseconds(64));
  CountingPoller poller;
  loop.add(poller);
  std::vector<int> spins;
  Op work;
  work.completion = [](Op&) {};
  parker.on_park = [&] {
    spins.push_back(std::exchange(poller.polls, 0));
    // Eight times the work takes long to come, then it comes soon.
    clock.pass(spins.size() <= 8 ? std::chrono::milliseconds(1) : std::chrono::microseconds(5));
    loop.complete(work, Code::ok);
    if (spins.size() == 10) loop.stop();
  };
  loop.run();
  EXPECT_GT(spins[0], 50);
  EXPECT_LT(spins[1], spins[0]);
  EXPECT_LE(spins[7], 2);
  EXPECT_LE(spins[8], 2) << "the last of the long sleeps";
  EXPECT_GT(spins[9], 50) << "the sleep before it was short";
  loop.poll();
  loop.remove(poller);
}

struct TimerRecorder : Timer {
  std::vector<int>* log = nullptr;
  int value = 0;
};

TEST_F(LoopTest, fires_timers_by_deadline_and_not_when_cancelled) {
  std::vector<int> log;
  std::vector<TimerRecorder> timers(20);
  const Time start = loop_.now();
  for (int i = 0; i < 20; ++i) {
    timers[i].log = &log;
    timers[i].value = i;
    timers[i].completion = [](Op& op) {
      auto& self = static_cast<TimerRecorder&>(op);
      self.log->push_back(self.value);
    };
    loop_.start(timers[i], start + Duration((i * 7) % 20));
  }
  EXPECT_TRUE(loop_.cancel(timers[3]));
  EXPECT_FALSE(loop_.cancel(timers[3]));
  while (log.size() < 19) loop_.poll_or_park(start + std::chrono::seconds(10));
  for (size_t i = 1; i < log.size(); ++i) {
    EXPECT_LT((log[i - 1] * 7) % 20, (log[i] * 7) % 20);
  }
}

TEST_F(LoopTest, sleeps_until_another_thread_completes_an_operation) {
  std::thread thread([this] { loop_.run(); });
  constexpr int kCalls = 2000;
  std::atomic<int> entered = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int n = 0; n < kCalls; ++n) {
        const Status status = thread_caller().call(loop_, [&](Op& done) {
          entered.fetch_add(1);
          loop_.complete(done, Code::busy);
        });
        ASSERT_EQ(status, Status(Code::busy));
      }
    });
  }
  for (auto& caller : callers) caller.join();
  loop_.stop();
  thread.join();
  EXPECT_EQ(entered.load(), 3 * kCalls);
}

TEST_F(LoopTest, polling_caller_drives_the_loop_itself) {
  PollingCaller caller;
  EXPECT_TRUE(caller.call(loop_, [&](Op& done) { loop_.complete(done, Code::ok); }).ok());
}

TEST(SeededRandom, repeats_its_sequence_and_stays_below_the_bound) {
  SeededRandom a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = a.below(10);
    EXPECT_LT(value, 10u);
    EXPECT_EQ(value, b.below(10));
    differs |= value != c.below(10);
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace penstock::engine
