#include "penstock/base.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <pthread.h>
#include <string_view>
#include <vector>

namespace penstock {
namespace {

Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32c, matches_the_published_check_value) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, continues_over_pieces) {
  EXPECT_EQ(crc32c(bytes_of("6789"), crc32c(bytes_of("12345"))), 0xE3069283u);
}

TEST(Crc32c, joins_without_the_bytes) {
  std::vector<std::byte> data(70000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * i >> 3);
  const Bytes all(data);
  for (const size_t cut : {0, 1, 9, 4096, 65536, 69999, 70000}) {
    const Bytes first = all.first(cut);
    const Bytes second = all.subspan(cut);
    EXPECT_EQ(crc32c_join(crc32c(first), crc32c(second), second.size()), crc32c(all)) << cut;
  }
}

TEST(Bytes, range_within_never_overflows) {
  EXPECT_TRUE(range_within(0, 10, 10));
  EXPECT_TRUE(range_within(10, 0, 10));
  EXPECT_FALSE(range_within(1, 10, 10));
  EXPECT_FALSE(range_within(UINT64_MAX, 2, 10));
  EXPECT_FALSE(range_within(2, UINT64_MAX, 10));
}

TEST(Status, maps_to_errno_and_back) {
  for (const int error : {ENOENT, EEXIST, EACCES, ENOSPC, EIO, EBADF, EINVAL, ENAMETOOLONG}) {
    EXPECT_EQ(Status::from_errno(error).to_errno(), error);
  }
  EXPECT_TRUE(Status::from_errno(0).ok());
  EXPECT_EQ(Status(Code::corrupt).to_errno(), EIO);
}

Result<int> half(int value) {
  if (value % 2 != 0) return Code::invalid_argument;
  return value / 2;
}

Result<int> quarter(int value) {
  TRY_ASSIGN(const int once, half(value));
  TRY_ASSIGN(const int twice, half(once));
  return twice;
}

TEST(Result, propagates_the_first_error) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error(), Status(Code::invalid_argument));
}

struct Item : ListNode {
  explicit Item(int v) : value(v) {}
  int value;
};

TEST(IntrusiveList, keeps_order_and_lets_elements_leave) {
  Item a(1), b(2), c(3);
  IntrusiveList<Item> list;
  list.push_back(b);
  list.push_back(c);
  list.push_front(a);
  b.unlink();
  EXPECT_EQ(list.pop_front(), &a);
  EXPECT_EQ(list.pop_front(), &c);
  EXPECT_EQ(list.pop_front(), nullptr);
}

TEST(Histogram, percentiles_are_within_the_stated_error) {
  Histogram histogram;
  for (uint64_t value = 1; value <= 100'000; ++value) histogram.record(value);
  EXPECT_EQ(histogram.count(), 100'000u);
  for (const double fraction : {0.01, 0.5, 0.99, 0.999}) {
    const double exact = fraction * 100'000;
    EXPECT_GE(static_cast<double>(histogram.percentile(fraction)), exact - 1);
    EXPECT_LE(static_cast<double>(histogram.percentile(fraction)), exact * 1.032 + 1);
  }
  EXPECT_EQ(histogram.percentile(1.0), 100'000u);
}

TEST(Histogram, holds_the_largest_value) {
  Histogram histogram;
  histogram.record(UINT64_MAX);
  EXPECT_EQ(histogram.percentile(0.5), UINT64_MAX);
}

TEST(Metrics, counters_of_one_name_are_added) {
  metrics::Counter first("base_test.count"), second("base_test.count");
  first.add(2);
  second.add(3);
  uint64_t sum = 0;
  for (const auto& sample : metrics::snapshot()) {
    if (sample.name == "base_test.count") sum = sample.value;
  }
  EXPECT_EQ(sum, 5u);
}

TEST(Thread, takes_no_signals_and_leaves_those_of_its_starter) {
  sigset_t in_thread;
  Outcome<std::thread> thread =
      start_thread("a thread", [&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &in_thread); });
  ASSERT_TRUE(thread.has_value());
  thread->join();
  sigset_t here;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &here);
  EXPECT_EQ(sigismember(&in_thread, SIGTERM), 1);
  EXPECT_EQ(sigismember(&here, SIGTERM), 0);
}

TEST(Thread, that_cannot_be_started_is_an_error) {
  pthread_attr_t before;
  ASSERT_EQ(::pthread_getattr_default_np(&before), 0);
  pthread_attr_t too_much = before;
  ASSERT_EQ(::pthread_attr_setstacksize(&too_much, size_t{1} << 46), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&too_much), 0);
  const Outcome<std::thread> thread = start_thread("a thread", [] {});
  ASSERT_EQ(::pthread_setattr_default_np(&before), 0);
  ASSERT_FALSE(thread.has_value());
  EXPECT_EQ(thread.error().status, Code::busy);
}

}  // namespace
}  // namespace penstock
