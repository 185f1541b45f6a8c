#include "flush_timer.h"

#include "tests/fake_penstock.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

#include "penstock/testing.h"

namespace penstock::usrbio {
namespace {

using namespace std::chrono_literals;

class Counted final : public Flushable {
 public:
  uint64_t flush(uint64_t now) override {
    ++calls;
    return body ? body(now) : 0;
  }
  bool called(int times) const {
    return test::eventually([&] { return calls >= times; });
  }

  std::function<uint64_t(uint64_t)> body;
  std::atomic<int> calls{0};
};

FlushTimer& timer() {
  static FlushTimer* const instance = new FlushTimer;  // its thread never ends
  return *instance;
}

TEST(FlushTimer, calls_when_the_time_has_come_and_not_before) {
  Counted ring;
  uint64_t called_at = 0;
  ring.body = [&](uint64_t now) {
    called_at = now;
    return 0;
  };
  ASSERT_TRUE(timer().add(ring));
  const uint64_t time = penstock_now() + 20'000'000;
  timer().arm(ring, time);
  EXPECT_TRUE(ring.called(1));
  timer().remove(ring);
  EXPECT_GE(called_at, time);
}

TEST(FlushTimer, earlier_time_wins) {
  Counted late;
  Counted soon;
  ASSERT_TRUE(timer().add(soon));
  ASSERT_TRUE(timer().add(late));
  timer().arm(late, penstock_now() + 3'600'000'000'000);
  timer().arm(soon, penstock_now() + 1'000'000);
  EXPECT_TRUE(soon.called(1));
  EXPECT_EQ(late.calls, 0);
  timer().arm(late, penstock_now() + 1'000'000);
  EXPECT_TRUE(late.called(1));
  timer().remove(late);
  timer().remove(soon);
}

TEST(FlushTimer, calls_again_when_it_is_told_so) {
  Counted ring;
  ring.body = [&](uint64_t now) { return ring.calls < 3 ? now + 1'000'000 : 0; };
  ASSERT_TRUE(timer().add(ring));
  timer().arm(ring, penstock_now());
  EXPECT_TRUE(ring.called(3));
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(ring.calls, 3);
  timer().remove(ring);
}

TEST(FlushTimer, removal_waits_for_a_call_in_progress) {
  Counted ring;
  std::atomic<bool> release{false};
  std::atomic<bool> done{false};
  ring.body = [&](uint64_t) {
    while (!release) std::this_thread::yield();
    done = true;
    return 0;
  };
  ASSERT_TRUE(timer().add(ring));
  timer().arm(ring, penstock_now());
  ASSERT_TRUE(ring.called(1));
  bool done_before_removal_ended = false;
  std::thread remover([&] {
    timer().remove(ring);
    done_before_removal_ended = done;
  });
  std::this_thread::sleep_for(5ms);
  release = true;
  remover.join();
  EXPECT_TRUE(done_before_removal_ended);
}

TEST(FlushTimer, nobody_is_called_after_removal) {
  Counted ring;
  ASSERT_TRUE(timer().add(ring));
  timer().arm(ring, penstock_now() + 1'000'000);
  timer().remove(ring);
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(ring.calls, 0);
  timer().arm(ring, penstock_now());  // unknown: nothing happens
}

}  // namespace
}  // namespace penstock::usrbio
