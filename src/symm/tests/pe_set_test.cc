#include "penstock/symm/pe_set.h"

#include <gtest/gtest.h>
#include <limits>

namespace penstock::symm {
namespace {

TEST(PeSetTest, finds_its_pes_and_no_others) {
  const PeSet set = {2, 3, 4};  // 2, 5, 8, 11
  for (uint32_t pe = 0; pe < 20; ++pe) {
    const auto index = set.index_of(pe);
    const bool is_in = pe == 2 || pe == 5 || pe == 8 || pe == 11;
    EXPECT_EQ(index.has_value(), is_in) << pe;
    if (index) {
      EXPECT_EQ(set.pe(*index), pe);
    }
  }
}

TEST(PeSetTest, has_parts_with_steps_of_steps) {
  const PeSet set = {2, 3, 4};
  EXPECT_EQ(set.part({1, 2, 2}), (PeSet{5, 6, 2}));
  EXPECT_EQ(set.part({3, 1, 1}), (PeSet{11, 1, 1}));
  EXPECT_EQ(set.part({3, 4'000'000'000, 1}), (PeSet{11, 1, 1}));
  EXPECT_FALSE(set.part({2, 2, 2}));
  EXPECT_FALSE(set.part({0, 1, 5}));
  EXPECT_FALSE(set.part({0, 1, 0}));
  EXPECT_FALSE(set.part({0, 0, 2}));
  EXPECT_FALSE(set.part({0, 4'000'000'000, 4'000'000'000}));
}

TEST(PeSetTest, goes_down_where_its_step_does) {
  const PeSet set = {11, -3, 4};  // 11, 8, 5, 2
  for (uint32_t pe = 0; pe < 20; ++pe) {
    const auto index = set.index_of(pe);
    const bool is_in = pe == 2 || pe == 5 || pe == 8 || pe == 11;
    EXPECT_EQ(index.has_value(), is_in) << pe;
    if (index) {
      EXPECT_EQ(set.pe(*index), pe);
    }
  }
  EXPECT_EQ(set.part({1, 2, 2}), (PeSet{8, -6, 2}));
  EXPECT_EQ(set.part({3, -1, 4}), (PeSet{2, 3, 4}));
  EXPECT_FALSE(set.part({1, -1, 3}));
  EXPECT_FALSE(set.part({3, std::numeric_limits<int64_t>::min(), 2}));
  EXPECT_FALSE(set.part({4, -1, 2}));
}

}  // namespace
}  // namespace penstock::symm
