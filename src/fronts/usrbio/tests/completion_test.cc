// Waiting, and operations of several parts.
#include "tests/ring_fixture.h"

namespace penstock::usrbio {
namespace {

using testing::IsEmpty;

TEST_F(RingTest, large_operation_is_one_for_the_caller) {
  open({.entries = 2});
  register_fd(true, false);
  constexpr uint64_t kLength = 2 * limits::kIoBytesMax + 4096;
  const int index = prepare(8192, kLength);
  ASSERT_GE(index, 0);
  ring_->submit();
  ASSERT_EQ(lane_->submitted.size(), 3U);
  EXPECT_EQ(lane_->submitted[1].offset, 8192 + limits::kIoBytesMax);
  EXPECT_EQ(lane_->submitted[1].region_offset, 8192 + limits::kIoBytesMax);
  EXPECT_EQ(lane_->submitted[2].length, 4096U);
  lane_->complete(2, 4096);
  lane_->complete(0, limits::kIoBytesMax);
  EXPECT_EQ(wait(4, 1, 10ms), 0);
  lane_->complete(0, limits::kIoBytesMax);
  ASSERT_EQ(wait(4, 1, 60s), 1);
  EXPECT_EQ(cqes_[0].result, static_cast<int64_t>(kLength));
  EXPECT_EQ(cqes_[0].index, index);
}

TEST_F(RingTest, large_operation_ends_at_its_first_missing_byte) {
  open({.entries = 2});
  register_fd(true, false);
  for (const size_t first : {1, 2}) {
    prepare(0, 3 * limits::kIoBytesMax);
    ring_->submit();
    // The file grew meanwhile: the last part got more than the one before.
    lane_->complete(first, first == 1 ? 5 : 77);
    lane_->complete(1, first == 1 ? 77 : 5);
    lane_->complete(0, limits::kIoBytesMax);
    ASSERT_EQ(wait(1, 1, 60s), 1);
    EXPECT_EQ(cqes_[0].result, static_cast<int64_t>(limits::kIoBytesMax + 5));
  }
}

TEST_F(RingTest, large_operation_fails_when_a_part_does) {
  open({.entries = 2});
  register_fd(true, false);
  prepare(0, 2 * limits::kIoBytesMax);
  ring_->submit();
  lane_->complete(1, -EIO);
  lane_->complete(0, limits::kIoBytesMax);
  ASSERT_EQ(wait(1, 1, 60s), 1);
  EXPECT_EQ(cqes_[0].result, -EIO);
}

TEST_F(RingTest, large_operation_fails_when_a_later_part_is_refused) {
  open({.entries = 2});
  register_fd(true, false);
  lane_->refuse_prepare_after = 2;
  const int index = prepare(0, 3 * limits::kIoBytesMax);
  ASSERT_GE(index, 0);
  ring_->submit();
  EXPECT_EQ(lane_->submitted.size(), 2U);
  lane_->complete_all();
  ASSERT_EQ(wait(1, 1, 60s), 1);
  EXPECT_EQ(cqes_[0].result, -EBADF);
  EXPECT_EQ(wait(1, 1, 1ms), 0);
}

TEST_F(RingTest, large_operations_wait_for_room_of_all_their_parts) {
  open({.entries = 2});  // 128 native entries
  register_fd(true, false);
  EXPECT_GE(prepare(0, 64 * limits::kIoBytesMax), 0);
  EXPECT_GE(prepare(0, 64 * limits::kIoBytesMax), 0);
  ring_->submit();
  lane_->complete_all();
  EXPECT_EQ(wait(8, 2, 60s), 2);
  EXPECT_EQ(cqes_[0].result, static_cast<int64_t>(kIovBytes));
}

TEST_F(RingTest, large_operation_is_not_begun_without_room_for_its_end) {
  open({.entries = 3});  // 128 native entries
  register_fd(true, false);
  EXPECT_GE(prepare(0, 63 * limits::kIoBytesMax), 0);
  EXPECT_GE(prepare(0, 64 * limits::kIoBytesMax), 0);
  EXPECT_EQ(prepare(0, 2 * limits::kIoBytesMax), -EAGAIN);
  EXPECT_EQ(lane_->in_flight, 127U);
  EXPECT_GE(prepare(0, limits::kIoBytesMax), 0);
}

TEST_F(RingTest, wait_returns_at_once_when_the_time_is_past) {
  open({.entries = 4});
  register_fd(true, false);
  prepare(0, 1);
  ring_->submit();
  timespec monotonic{};
  ::clock_gettime(CLOCK_MONOTONIC, &monotonic);
  monotonic.tv_nsec = 0;
  EXPECT_EQ(ring_->wait(cqes_.data(), 4, 1, &monotonic), 0);
  lane_->complete_oldest(1);
  EXPECT_EQ(ring_->wait(cqes_.data(), 4, 1, &monotonic), 1);
}

TEST_F(RingTest, wait_returns_fewer_when_the_time_comes) {
  open({.entries = 4});
  register_fd(true, false);
  prepare(0, 1);
  prepare(0, 1);
  ring_->submit();
  lane_->complete_oldest(1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(wait(4, 2, 30ms), 1);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 29ms);
}

TEST_F(RingTest, wait_takes_no_more_than_there_is_room_for) {
  open({.entries = 200});
  register_fd(true, false);
  for (int i = 0; i < 200; ++i) ASSERT_GE(prepare(0, 1), 0);
  ring_->submit();
  lane_->complete_all();
  EXPECT_EQ(ring_->wait(cqes_.data(), 3, 1, nullptr), 3);
  EXPECT_EQ(ring_->wait(cqes_.data(), 190, 190, nullptr), 190);
  EXPECT_EQ(ring_->wait(cqes_.data(), 190, 0, nullptr), 7);
  EXPECT_EQ(ring_->wait(cqes_.data(), 190, 0, nullptr), 0);
}

TEST_F(RingTest, wait_for_ever_ends_when_another_thread_completes) {
  open({.entries = 8});
  register_fd(true, false);
  int got = -1;
  std::thread waiter([&] { got = ring_->wait(cqes_.data(), 8, 3, nullptr); });
  for (int i = 0; i < 3; ++i) prepare(0, 1);
  ring_->submit();
  for (int i = 0; i < 3; ++i) lane_->complete_oldest(1);
  waiter.join();
  EXPECT_EQ(got, 3);
}

TEST_F(RingTest, second_waiter_has_its_turn) {
  open({.entries = 8});
  register_fd(true, false);
  prepare(0, 4096);
  prepare(0, 4096);
  ring_->submit();
  std::thread first([&] { EXPECT_EQ(ring_->wait(cqes_.data(), 1, 1, nullptr), 1); });
  while (!lane_->has_waiter) std::this_thread::yield();
  hf3fs_cqe mine{};
  EXPECT_EQ(ring_->wait(&mine, 1, 0, nullptr), 0) << "it does not want to wait";
  const timespec soon = realtime_in(10ms);
  EXPECT_EQ(ring_->wait(&mine, 1, 1, &soon), 0) << "its time has passed";
  std::thread second([&] { EXPECT_EQ(ring_->wait(&mine, 1, 1, nullptr), 1); });
  lane_->complete_oldest(1);
  first.join();
  lane_->complete_oldest(2);
  second.join();
  EXPECT_EQ(cqes_[0].result + mine.result, 3);
}

TEST_F(RingTest, many_waiters_get_each_completion_once) {
  constexpr int kThreads = 4, kEach = 200;
  open({.entries = 8});
  register_fd(true, false);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < kThreads; ++i) {
    waiters.emplace_back([&] {
      for (int taken = 0; taken < kEach; ++taken) {
        hf3fs_cqe one{};
        ASSERT_EQ(ring_->wait(&one, 1, 1, nullptr), 1);
        sum += one.result;
      }
    });
  }
  for (int i = 0; i < kThreads * kEach;) {
    if (prepare(0, 4096) < 0) {
      std::this_thread::yield();
      continue;
    }
    ring_->submit();
    lane_->complete_oldest(++i);
  }
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(sum.load(), int64_t{kThreads * kEach} * (kThreads * kEach + 1) / 2);
}

TEST_F(RingTest, wait_ends_with_errors_when_the_agent_dies) {
  open({.entries = 8});
  register_fd(true, false);
  prepare(0, 1);
  prepare(0, 1);
  ring_->submit();
  int got = -1;
  std::thread waiter([&] { got = ring_->wait(cqes_.data(), 8, 3, nullptr); });
  lane_->kill();
  waiter.join();
  EXPECT_EQ(got, 2);
  EXPECT_EQ(cqes_[0].result, -ECONNRESET);
  EXPECT_EQ(ring_->wait(cqes_.data(), 8, 1, nullptr), -ECONNRESET);
  EXPECT_EQ(prepare(0, 1), -ECONNRESET);
  EXPECT_TRUE(session_.dead);
}

TEST_F(RingTest, held_operations_end_too_when_the_agent_dies) {
  open({.entries = 8, .io_depth = 4});
  register_fd(true, false);
  prepare(0, 1);
  ring_->submit();
  EXPECT_THAT(lane_->seen_batches(), IsEmpty());
  lane_->kill();
  EXPECT_EQ(wait(8, 1, 10ms), -ECONNRESET);
  EXPECT_EQ(ring_->submit(), 0);
  ASSERT_EQ(wait(8, 1, 60s), 1);
  EXPECT_EQ(cqes_[0].result, -ECONNRESET);
}

TEST_F(RingTest, foreign_completions_are_dropped) {
  open({.entries = 2});
  register_fd(true, false);
  prepare(0, 1);
  ring_->submit();
  lane_->submitted.front().user_data = 1'000'000;
  lane_->complete_oldest(1);
  EXPECT_EQ(wait(2, 1, 1ms), 0);
}

// One thread submits, another waits: every operation comes back once, with its own userdata.
TEST_F(RingTest, submitting_and_waiting_threads_keep_operations_apart) {
  constexpr uint64_t kOperations = 20'000;
  open({.entries = 32});
  register_fd(true, false);
  std::thread agent([&] {
    for (uint64_t done = 0; done < kOperations;) {
      size_t there = 0;
      {
        const std::lock_guard lock(lane_->mutex);
        there = lane_->submitted.size();
      }
      for (size_t i = 0; i < there; ++i, ++done) lane_->complete(there - i - 1, 1);
      std::this_thread::yield();
    }
  });
  std::vector<bool> seen(kOperations);
  std::thread waiter([&] {
    for (uint64_t taken = 0; taken < kOperations;) {
      const int n = ring_->wait(cqes_.data(), 32, 1, nullptr);
      ASSERT_GT(n, 0);
      for (int i = 0; i < n; ++i) {
        const auto number = reinterpret_cast<uintptr_t>(cqes_[i].userdata);
        ASSERT_LT(number, kOperations);
        ASSERT_FALSE(seen[number]);
        seen[number] = true;
      }
      taken += static_cast<uint64_t>(n);
    }
  });
  for (uint64_t i = 0; i < kOperations;) {
    if (prepare(0, 1, reinterpret_cast<const void*>(i)) >= 0) {
      ++i;
      if (i % 5 != 0 && i != kOperations) continue;
    }
    ring_->submit();
    std::this_thread::yield();
  }
  agent.join();
  waiter.join();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<int64_t>(kOperations));
}

}  // namespace
}  // namespace penstock::usrbio
