#include "handle_table.h"

#include <gtest/gtest.h>

namespace penstock::shmem {
namespace {

using Table = HandleTable<int, 4>;

TEST(HandleTable, finds_what_was_added) {
  Table table;
  const auto one = table.add(1);
  const auto two = table.add(2);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(*table.find(*one), 1);
  EXPECT_EQ(*table.find(*two), 2);
  EXPECT_GE(*one & 0xffff'ffff, Table::kFirst);
}

TEST(HandleTable, knows_no_handle_that_was_given_back_even_when_its_place_is_used_again) {
  Table table;
  const auto first = table.add(1);
  EXPECT_TRUE(table.remove(*first));
  EXPECT_EQ(table.find(*first), nullptr);
  EXPECT_FALSE(table.remove(*first));
  const auto second = table.add(2);
  EXPECT_EQ(*second & 0xffff'ffff, *first & 0xffff'ffff);
  EXPECT_EQ(table.find(*first), nullptr);
  EXPECT_EQ(*table.find(*second), 2);
}

TEST(HandleTable, is_full_at_its_limit) {
  Table table;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(table.add(i));
  EXPECT_FALSE(table.add(4));
  table.remove_if([](int value) { return value % 2 == 0; });
  EXPECT_TRUE(table.add(5));
  EXPECT_TRUE(table.add(6));
  EXPECT_FALSE(table.add(7));
}

TEST(HandleTable, knows_no_number_that_it_has_not_given) {
  Table table;
  const auto one = table.add(1);
  for (const uint64_t number :
       {uint64_t{0}, uint64_t{1}, Table::kFirst + uint64_t{0}, *one + 1, *one + (uint64_t{1} << 32),
        *one + (uint64_t{2} << 32), ~uint64_t{0}, uint64_t{0x7fff'ffff'ffff}}) {
    EXPECT_EQ(table.find(number), nullptr) << number;
  }
}

}  // namespace
}  // namespace penstock::shmem
