#include "ring.h"

#include "tests/fake_penstock.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <thread>

namespace penstock::usrbio {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

timespec realtime_in(std::chrono::milliseconds delay) {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  const int64_t ns = time.tv_nsec + delay.count() % 1000 * 1'000'000;
  time.tv_sec += delay.count() / 1000 + ns / 1'000'000'000;
  time.tv_nsec = ns % 1'000'000'000;
  return time;
}

TEST(Batches, depth_zero_takes_what_is_there) {
  const RingOptions options{.entries = 64, .io_depth = 0, .timeout_ns = 5};
  EXPECT_EQ(passable(options, 0, false), 0U);
  EXPECT_EQ(passable(options, 7, false), 7U);
}

TEST(Batches, positive_depth_waits_for_whole_batches) {
  RingOptions options{.entries = 64, .io_depth = 4};
  EXPECT_EQ(passable(options, 3, false), 0U);
  EXPECT_EQ(passable(options, 4, false), 4U);
  EXPECT_EQ(passable(options, 11, false), 8U);
  options.timeout_ns = 1;
  EXPECT_EQ(passable(options, 11, false), 8U);
  EXPECT_EQ(passable(options, 3, true), 3U);
}

TEST(Batches, negative_depth_waits_only_when_there_is_a_timeout) {
  RingOptions options{.entries = 64, .io_depth = -4};
  EXPECT_EQ(passable(options, 3, false), 3U);
  EXPECT_EQ(passable(options, 9, false), 9U);
  options.timeout_ns = 1;
  EXPECT_EQ(passable(options, 3, false), 0U);
  EXPECT_EQ(passable(options, 9, false), 8U);
  EXPECT_EQ(passable(options, 9, true), 9U);
}

// Its thread never ends, so it is never destroyed.
FlushTimer& shared_timer() {
  static FlushTimer* const timer = new FlushTimer;
  return *timer;
}

// A ring over the fake, with one iov whose memory is never touched and one registered descriptor.
class RingTest : public testing::Test {
 protected:
  static constexpr size_t kIovBytes = size_t{4} << 30;
  static constexpr int kFd = 5;

  void SetUp() override {
    session_.handle = &native_;
    base_ = static_cast<uint8_t*>(
        ::mmap(nullptr, kIovBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ASSERT_NE(base_, MAP_FAILED);
    region_ = {&native_, base_, kIovBytes};
    registration_.session = &session_;
    registration_.region = &region_;
    record_.kind = Iov::Kind::created;
    record_.id = random_uuid();
    record_.base = base_;
    record_.size = kIovBytes;
    record_.current.store(&registration_);
    iov_.base = base_;
    iov_.iovh = &record_;
    iov_.size = kIovBytes;
    std::copy(record_.id.begin(), record_.id.end(), iov_.id);
  }
  void TearDown() override {
    ring_.reset();
    ::munmap(base_, kIovBytes);
  }

  void open(const RingOptions& options) {
    auto ring = Ring::create(session_, timer_, options);
    ASSERT_TRUE(ring);
    ring_ = std::move(*ring);
    lane_ = &fake::last_lane();
  }
  void register_fd(bool readable, bool writable) { files_.put(kFd, {0, 17, readable, writable}); }
  int prepare(size_t offset, uint64_t length, const void* userdata = nullptr, bool read = true) {
    return ring_->prepare(iovs_, files_, iov_, read, base_ + offset, kFd, offset, length, userdata);
  }
  int wait(uint32_t max, uint32_t min, std::chrono::milliseconds time) {
    const timespec until = realtime_in(time);
    return ring_->wait(cqes_.data(), max, min, &until);
  }

  penstock_session native_;
  penstock_region region_;
  Session session_;
  Sessions sessions_;
  Iovs iovs_{sessions_};
  Files files_{sessions_};
  FlushTimer& timer_ = shared_timer();
  Registration registration_;
  Iov record_;
  hf3fs_iov iov_{};
  uint8_t* base_ = nullptr;
  std::unique_ptr<Ring> ring_;
  penstock_lane* lane_ = nullptr;
  std::array<hf3fs_cqe, 256> cqes_{};
};

using namespace std::chrono_literals;

TEST_F(RingTest, operation_carries_what_was_asked_and_its_completion_what_was_given) {
  open({.entries = 4, .for_read = true, .refuse_holes = true});
  register_fd(true, true);
  int tag = 0;
  const int index = prepare(8192, 4096, &tag);
  ASSERT_GE(index, 0);
  ASSERT_LT(index, 4);
  EXPECT_EQ(ring_->submit(), 0);
  ASSERT_EQ(lane_->submitted.size(), 1U);
  const penstock_io io = lane_->submitted.front();
  EXPECT_EQ(io.operation, PENSTOCK_READ);
  EXPECT_EQ(io.flags, PENSTOCK_REFUSE_HOLES);
  EXPECT_EQ(io.file, 17);
  EXPECT_EQ(io.offset, 8192U);
  EXPECT_EQ(io.length, 4096U);
  EXPECT_EQ(io.region, &region_);
  EXPECT_EQ(io.region_offset, 8192U);
  lane_->complete_oldest(100);
  ASSERT_EQ(wait(1, 1, 10s), 1);
  EXPECT_EQ(cqes_[0].index, index);
  EXPECT_EQ(cqes_[0].result, 100);
  EXPECT_EQ(cqes_[0].userdata, &tag);
}

TEST_F(RingTest, writes_are_durable) {
  open({.entries = 4, .for_read = false});
  register_fd(false, true);
  ASSERT_GE(prepare(0, 1, nullptr, false), 0);
  ring_->submit();
  EXPECT_EQ(lane_->submitted.front().operation, PENSTOCK_WRITE);
  EXPECT_EQ(lane_->submitted.front().flags, PENSTOCK_DURABLE);
}

TEST_F(RingTest, nothing_is_visible_before_submit) {
  open({.entries = 4});
  register_fd(true, false);
  prepare(0, 1);
  prepare(0, 1);
  EXPECT_TRUE(lane_->submitted.empty());
  ring_->submit();
  EXPECT_THAT(lane_->seen_batches(), ElementsAre(2));
}

TEST_F(RingTest, bad_operations_are_refused) {
  open({.entries = 4});
  EXPECT_EQ(prepare(0, 1), -EBADF);  // not registered
  register_fd(true, false);
  EXPECT_EQ(prepare(0, 0), -EINVAL);
  EXPECT_EQ(prepare(kIovBytes - 1, 2), -EINVAL);
  EXPECT_EQ(prepare(kIovBytes, 1), -EINVAL);
  EXPECT_EQ(prepare(0, UINT64_MAX), -EINVAL);
  EXPECT_EQ(prepare(0, 1, nullptr, false), -EINVAL);  // direction
  EXPECT_EQ(ring_->prepare(iovs_, files_, iov_, true, nullptr, kFd, 0, 1, nullptr), -EINVAL);
  EXPECT_EQ(ring_->prepare(iovs_, files_, iov_, true, base_ - 1, kFd, 0, 1, nullptr), -EINVAL);
  EXPECT_EQ(ring_->prepare(iovs_, files_, iov_, true, base_, kFd, SIZE_MAX, 1, nullptr), -EINVAL);
  EXPECT_EQ(ring_->prepare(iovs_, files_, iov_, true, base_, 1 << 30, 0, 1, nullptr), -EBADF);
  EXPECT_EQ(ring_->prepare(iovs_, files_, iov_, true, base_, INT32_MIN, 0, 1, nullptr), -EBADF);
  files_.put(kFd, {9, 17, true, true});  // of another session
  EXPECT_EQ(prepare(0, 1), -EBADF);
  register_fd(false, true);
  EXPECT_EQ(prepare(0, 1), -EACCES);
  register_fd(true, false);
  EXPECT_GE(prepare(0, 1), 0);
  EXPECT_GE(ring_->prepare(iovs_, files_, iov_, true, base_, -kFd, 0, 1, nullptr), 0);
}

TEST_F(RingTest, iov_may_be_described_smaller_but_not_larger_than_it_is) {
  open({.entries = 4});
  register_fd(true, false);
  hf3fs_iov slice = iov_;
  slice.base += 4096;
  slice.size = 4096;
  EXPECT_EQ(ring_->prepare(iovs_, files_, slice, true, base_, kFd, 0, 1, nullptr), -EINVAL);
  EXPECT_GE(ring_->prepare(iovs_, files_, slice, true, base_ + 4096, kFd, 0, 1, nullptr), 0);
  ring_->submit();
  EXPECT_EQ(lane_->submitted.front().region_offset, 4096U);
  hf3fs_iov larger = iov_;
  larger.size += 4096;
  EXPECT_EQ(ring_->prepare(iovs_, files_, larger, true, base_ + kIovBytes, kFd, 0, 1, nullptr),
            -EINVAL);
}

TEST_F(RingTest, operation_must_not_cross_a_block) {
  open({.entries = 8});
  register_fd(true, false);
  registration_.block_size = 4096;
  EXPECT_GE(prepare(4096, 4096), 0);
  EXPECT_GE(prepare(4095, 1), 0);
  EXPECT_EQ(prepare(4095, 2), -EINVAL);
  EXPECT_EQ(prepare(0, 4097), -EINVAL);
}

TEST_F(RingTest, ring_is_full_after_its_entries_and_has_room_after_a_wait) {
  open({.entries = 3});
  register_fd(true, false);
  const std::array<int, 3> indices = {prepare(0, 1), prepare(0, 1), prepare(0, 1)};
  EXPECT_THAT(indices, testing::UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(prepare(0, 1), -EAGAIN);
  ring_->submit();
  EXPECT_EQ(prepare(0, 1), -EAGAIN);
  lane_->complete(1, 1);
  EXPECT_EQ(prepare(0, 1), -EAGAIN);  // complete, but not taken
  ASSERT_EQ(wait(3, 1, 10s), 1);
  EXPECT_EQ(prepare(0, 1), cqes_[0].index);
  EXPECT_EQ(prepare(0, 1), -EAGAIN);
}

TEST_F(RingTest, refused_operation_leaves_no_trace) {
  open({.entries = 2});
  register_fd(true, false);
  lane_->refuse_prepare_after = 0;
  EXPECT_EQ(prepare(0, 1), -EBADF);
  EXPECT_EQ(prepare(0, 1), -EBADF);
  EXPECT_EQ(prepare(0, 1), -EBADF);
  lane_->refuse_prepare_after = -1;
  EXPECT_GE(prepare(0, 1), 0);
  EXPECT_GE(prepare(0, 1), 0);
  EXPECT_EQ(prepare(0, 1), -EAGAIN);
}

TEST_F(RingTest, positive_depth_passes_on_exact_batches) {
  open({.entries = 16, .io_depth = 4});
  register_fd(true, false);
  for (int i = 0; i < 3; ++i) prepare(0, 1);
  ring_->submit();
  EXPECT_THAT(lane_->seen_batches(), IsEmpty());
  for (int i = 0; i < 7; ++i) prepare(0, 1);
  ring_->submit();
  EXPECT_THAT(lane_->seen_batches(), ElementsAre(4, 4));
  prepare(0, 1);
  prepare(0, 1);
  EXPECT_THAT(lane_->seen_batches(), ElementsAre(4, 4));
  ring_->submit();
  EXPECT_THAT(lane_->seen_batches(), ElementsAre(4, 4, 4));
}

TEST_F(RingTest, negative_depth_passes_on_at_once_in_bounded_batches) {
  open({.entries = 16, .io_depth = -4});
  register_fd(true, false);
  for (int i = 0; i < 10; ++i) prepare(0, 1);
  ring_->submit();
  EXPECT_THAT(lane_->seen_batches(), ElementsAre(4, 4, 2));
}

TEST_F(RingTest, partial_batch_goes_out_when_its_time_has_come) {
  for (const int depth : {4, -4}) {
    open({.entries = 16, .io_depth = depth, .timeout_ns = 20'000'000});
    register_fd(true, false);
    for (int i = 0; i < 6; ++i) prepare(0, 1);
    const auto begin = std::chrono::steady_clock::now();
    ring_->submit();
    EXPECT_THAT(lane_->seen_batches(), ElementsAre(4));
    while (lane_->seen_batches().size() < 2) {
      ASSERT_LT(std::chrono::steady_clock::now() - begin, 10s);
      std::this_thread::yield();
    }
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
    EXPECT_THAT(lane_->seen_batches(), ElementsAre(4, 2));
  }
}

TEST_F(RingTest, later_partial_batch_gets_its_own_time) {
  open({.entries = 16, .io_depth = 4, .timeout_ns = 30'000'000});
  register_fd(true, false);
  prepare(0, 1);
  ring_->submit();
  std::this_thread::sleep_for(20ms);
  for (int i = 0; i < 4; ++i) prepare(0, 1);
  const auto begin = std::chrono::steady_clock::now();
  ring_->submit();  // completes the first batch; one is left
  EXPECT_THAT(lane_->seen_batches(), ElementsAre(4));
  while (lane_->seen_batches().size() < 2) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, 10s);
    std::this_thread::yield();
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 30ms);
}

TEST_F(RingTest, ring_may_go_while_its_timer_is_armed) {
  for (int i = 0; i < 50; ++i) {
    open({.entries = 4, .io_depth = 2, .timeout_ns = 100'000});
    register_fd(true, false);
    prepare(0, 1);
    ring_->submit();
    if (i % 2 == 0) std::this_thread::sleep_for(100us);
    ring_.reset();
  }
}

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
  ASSERT_EQ(wait(4, 1, 10s), 1);
  EXPECT_EQ(cqes_[0].result, static_cast<int64_t>(kLength));
  EXPECT_EQ(cqes_[0].index, index);
}

TEST_F(RingTest, large_operation_ends_at_its_first_missing_byte) {
  open({.entries = 2});
  register_fd(true, false);
  prepare(0, 3 * limits::kIoBytesMax);
  ring_->submit();
  lane_->complete(2, 77);  // the file grew meanwhile
  lane_->complete(1, 5);
  lane_->complete(0, limits::kIoBytesMax);
  ASSERT_EQ(wait(1, 1, 10s), 1);
  EXPECT_EQ(cqes_[0].result, static_cast<int64_t>(limits::kIoBytesMax + 5));
}

TEST_F(RingTest, large_operation_fails_when_a_part_does) {
  open({.entries = 2});
  register_fd(true, false);
  prepare(0, 2 * limits::kIoBytesMax);
  ring_->submit();
  lane_->complete(1, -EIO);
  lane_->complete(0, limits::kIoBytesMax);
  ASSERT_EQ(wait(1, 1, 10s), 1);
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
  ASSERT_EQ(wait(1, 1, 10s), 1);
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
  EXPECT_EQ(wait(8, 2, 10s), 2);
  EXPECT_EQ(cqes_[0].result, static_cast<int64_t>(kIovBytes));
}

TEST_F(RingTest, wait_returns_at_once_when_the_time_is_past) {
  open({.entries = 4});
  register_fd(true, false);
  prepare(0, 1);
  ring_->submit();
  timespec monotonic{};
  ::clock_gettime(CLOCK_MONOTONIC, &monotonic);
  monotonic.tv_nsec = 0;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(ring_->wait(cqes_.data(), 4, 1, &monotonic), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
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

TEST_F(RingTest, second_waiter_is_told_so) {
  open({.entries = 8});
  register_fd(true, false);
  prepare(0, 1);
  ring_->submit();
  std::thread waiter([&] { EXPECT_EQ(ring_->wait(cqes_.data(), 1, 1, nullptr), 1); });
  while (!lane_->has_waiter) std::this_thread::yield();
  hf3fs_cqe mine{};
  EXPECT_EQ(ring_->wait(&mine, 1, 0, nullptr), -EBUSY);
  lane_->complete_oldest(1);
  waiter.join();
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
  ASSERT_EQ(wait(8, 1, 10s), 1);
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
