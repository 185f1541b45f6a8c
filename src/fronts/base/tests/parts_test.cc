#include <gtest/gtest.h>

#include "penstock/front.h"

namespace penstock::front {
namespace {

TEST(Parts, cover_an_operation_without_gap_or_overlap) {
  constexpr uint64_t kMost = limits::kIoBytesMax;
  for (const uint64_t length : {uint64_t{1}, kMost - 1, kMost, kMost + 1, 7 * kMost + 4096}) {
    uint64_t end = 0;
    for (uint64_t i = 0; i < part_count(length); ++i) {
      const Part part = part_at(length, i);
      EXPECT_EQ(part.begin, end);
      EXPECT_GT(part.length, 0u);
      EXPECT_LE(part.length, kMost);
      end = part.begin + part.length;
    }
    EXPECT_EQ(end, length);
  }
}

TEST(Parts, of_nothing_are_none) {
  EXPECT_EQ(part_count(0), 0u);
  EXPECT_EQ(part_at(0, 0).length, 0u);
}

TEST(Parts, of_the_largest_length_do_not_wrap) {
  EXPECT_EQ(part_count(UINT64_MAX), UINT64_MAX / limits::kIoBytesMax + 1);
  EXPECT_EQ(part_at(limits::kIoBytesMax, 1).length, 0u);
}

}  // namespace
}  // namespace penstock::front
