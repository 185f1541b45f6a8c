#include "ghost.h"

#include <gtest/gtest.h>

namespace penstock::arena {
namespace {

Extent extent_of(uint64_t inode, uint32_t number) {
  return {InodeId(inode), number};
}

TEST(Ghost, admits_what_is_read_again) {
  Ghost ghost(1000);
  EXPECT_FALSE(ghost.touch(extent_of(1, 1), {0, 16}));
  EXPECT_FALSE(ghost.touch(extent_of(1, 2), {0, 16}));
  EXPECT_TRUE(ghost.touch(extent_of(1, 1), {0, 16}));
  EXPECT_TRUE(ghost.touch(extent_of(1, 2), {15, 16}));
}

TEST(Ghost, counts_one_pass_in_small_reads_once) {
  Ghost ghost(1000);
  for (uint32_t block = 0; block < 16; ++block) {
    EXPECT_FALSE(ghost.touch(extent_of(1, 1), {block, block + 1}));
  }
  EXPECT_TRUE(ghost.touch(extent_of(1, 1), {0, 1}));
}

TEST(Ghost, forgets_the_oldest) {
  Ghost ghost(1000);
  EXPECT_FALSE(ghost.touch(extent_of(1, 0), {0, 16}));
  for (uint32_t i = 1; i < 100'000; ++i) EXPECT_FALSE(ghost.touch(extent_of(2, i), {0, 16}));
  EXPECT_FALSE(ghost.touch(extent_of(1, 0), {0, 16}));
}

TEST(Ghost, remembers_about_as_many_as_it_was_made_for) {
  Ghost ghost(10'000);
  for (uint32_t i = 0; i < 10'000; ++i) ghost.touch(extent_of(1, i), {0, 16});
  uint32_t remembered = 0;
  for (uint32_t i = 0; i < 10'000; ++i) remembered += ghost.touch(extent_of(1, i), {0, 16});
  EXPECT_GT(remembered, 8000u);
}

}  // namespace
}  // namespace penstock::arena
