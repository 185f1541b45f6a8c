// What one owner has, as POSIX says.
#include <gtest/gtest.h>
#include <vector>

#include "penstock/locks.h"

namespace penstock::locks {
namespace {

using Lock = Ranges::Lock;

std::vector<Lock> all(const Ranges& ranges) {
  std::vector<Lock> out;
  ranges.for_each([&](const Lock& lock) { out.push_back(lock); });
  return out;
}

TEST(LockRanges, are_split_by_what_is_unlocked_inside) {
  Ranges ranges;
  ranges.set({0, kEnd}, Type::write, 1);
  ranges.set({10, 20}, Type::none, 0);
  EXPECT_EQ(all(ranges),
            (std::vector<Lock>{{{0, 10}, Type::write, 1}, {{20, kEnd}, Type::write, 1}}));
  ranges.set({0, kEnd}, Type::none, 0);
  EXPECT_TRUE(ranges.empty());
}

TEST(LockRanges, of_one_type_that_touch_are_one) {
  Ranges ranges;
  ranges.set({0, 10}, Type::read, 1);
  ranges.set({20, 30}, Type::read, 1);
  EXPECT_EQ(ranges.size(), 2U);
  ranges.set({10, 20}, Type::read, 2);
  EXPECT_EQ(all(ranges), (std::vector<Lock>{{{0, 30}, Type::read, 2}}));
}

TEST(LockRanges, of_another_type_take_the_place) {
  Ranges ranges;
  ranges.set({0, 30}, Type::read, 1);
  ranges.set({10, 20}, Type::write, 1);
  EXPECT_EQ(all(ranges),
            (std::vector<Lock>{
                {{0, 10}, Type::read, 1}, {{10, 20}, Type::write, 1}, {{20, 30}, Type::read, 1}}));
  ranges.set({5, 25}, Type::read, 1);
  EXPECT_EQ(all(ranges), (std::vector<Lock>{{{0, 30}, Type::read, 1}}));
}

TEST(LockRanges, tell_what_is_in_the_way) {
  Ranges ranges;
  ranges.set({10, 20}, Type::read, 7);
  ranges.set({30, 40}, Type::write, 7);
  EXPECT_FALSE(ranges.in_the_way({0, 30}, Type::read).has_value());
  EXPECT_FALSE(ranges.in_the_way({20, 30}, Type::write).has_value());
  EXPECT_FALSE(ranges.in_the_way({0, 10}, Type::write).has_value());
  EXPECT_EQ(*ranges.in_the_way({19, 35}, Type::write), (Lock{{10, 20}, Type::read, 7}));
  EXPECT_EQ(*ranges.in_the_way({15, 31}, Type::read), (Lock{{30, 40}, Type::write, 7}));
  EXPECT_FALSE(ranges.in_the_way({0, kEnd}, Type::none).has_value());
}

}  // namespace
}  // namespace penstock::locks
