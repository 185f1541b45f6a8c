// Preparing and submitting.
#include "tests/ring_fixture.h"

namespace penstock::usrbio {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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
  ASSERT_EQ(wait(1, 1, 60s), 1);
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

TEST(NativeEntries, are_twice_as_many_as_asked_for_until_they_are_many) {
  for (const auto& [entries, native] :
       std::initializer_list<std::pair<uint32_t, uint32_t>>{{1, 128},
                                                            {32, 128},
                                                            {33, 256},
                                                            {8192, 32768},
                                                            {16384, 32768},
                                                            {32768, 32768},
                                                            {32769, 65536},
                                                            {40'000, 65536},
                                                            {65536, 65536},
                                                            {kEntriesMax, kEntriesMax}}) {
    EXPECT_EQ(native_entries(entries), native) << entries;
  }
}

TEST_F(RingTest, memory_of_a_large_ring_goes_with_it) {
  const int before = fake::rings_alive();
  open({.entries = 16});
  ring_.reset();
  EXPECT_EQ(fake::rings_alive(), before + 1) << "kept for the next";
  open({.entries = kEntriesMax});
  EXPECT_EQ(fake::rings_alive(), before + 2);
  ring_.reset();
  EXPECT_EQ(fake::rings_alive(), before + 1);
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
  ASSERT_EQ(wait(3, 1, 60s), 1);
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
    EXPECT_EQ(lane_->seen_batches().at(0), 4);
    ASSERT_TRUE(test::eventually([this] { return lane_->seen_batches().size() == 2; }));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
    EXPECT_THAT(lane_->seen_batches(), ElementsAre(4, 2));
  }
}

TEST_F(RingTest, later_partial_batch_gets_its_own_time) {
  // The timer never comes; the test says what time it is in its place.
  constexpr uint64_t kHour = 3'600'000'000'000;
  open({.entries = 16, .io_depth = 4, .timeout_ns = kHour});
  register_fd(true, false);
  prepare(0, 1);
  ring_->submit();
  const uint64_t first_is_due = ring_->flush(penstock_now());
  std::this_thread::sleep_for(2ms);
  for (int i = 0; i < 4; ++i) prepare(0, 1);
  const uint64_t before = penstock_now();
  ring_->submit();  // completes the first batch; one is left
  EXPECT_THAT(lane_->seen_batches(), ElementsAre(4));
  const uint64_t due = ring_->flush(first_is_due);
  EXPECT_GE(due, before + kHour) << "its own time, not that of the first";
  EXPECT_EQ(ring_->flush(due - 1), due);
  EXPECT_THAT(lane_->seen_batches(), ElementsAre(4));
  EXPECT_EQ(ring_->flush(due), 0U);
  EXPECT_THAT(lane_->seen_batches(), ElementsAre(4, 1));
}

TEST_F(RingTest, ring_may_go_while_its_timer_is_armed) {
  const int rings = fake::rings_alive();
  for (int i = 0; i < 50; ++i) {
    open({.entries = 4, .io_depth = 2, .timeout_ns = 100'000});
    register_fd(true, false);
    prepare(0, 1);
    ring_->submit();
    if (i % 2 == 0) std::this_thread::sleep_for(100us);
    ring_.reset();
    ASSERT_LE(fake::rings_alive(), rings + 1) << "lanes of rings that have gone are used again";
  }
  // What was armed for those that have gone calls nobody, and the timer serves the next.
  open({.entries = 4, .io_depth = 2, .timeout_ns = 100'000});
  register_fd(true, false);
  prepare(0, 1);
  const size_t before = lane_->seen_batches().size();  // a lane that others had
  ring_->submit();
  EXPECT_TRUE(test::eventually([&] { return lane_->seen_batches().size() == before + 1; }));
}

}  // namespace
}  // namespace penstock::usrbio
