// Where blocks lie in data files.
#include "data_files.h"

#include <gtest/gtest.h>

namespace penstock::store {
namespace {

using limits::kBlockBytes;

TEST(Places, of_the_first_16_TiB_are_in_files_of_1_GiB) {
  EXPECT_EQ(DataFiles::index_of(0), 0u);
  EXPECT_EQ(DataFiles::offset_of(limits::kDataFileBlocks - 1), kGiB - kBlockBytes);
  EXPECT_EQ(DataFiles::index_of(limits::kDataFileBlocks), 1u);
  EXPECT_EQ(DataFiles::offset_of(limits::kDataFileBlocks), 0u);
  const BlockNumber last = (BlockNumber{1} << 32) - 1;
  EXPECT_EQ(DataFiles::index_of(last), 16383u);
  EXPECT_EQ(DataFiles::offset_of(last), kGiB - kBlockBytes);
}

TEST(Places, beyond_are_in_files_of_64_GiB_up_to_1_PiB) {
  const BlockNumber first = BlockNumber{1} << 32;
  EXPECT_EQ(DataFiles::index_of(first), 16384u);
  EXPECT_EQ(DataFiles::offset_of(first), 0u);
  EXPECT_EQ(DataFiles::offset_of(first + 70'000'000 % limits::kDataFileBlocksLarge),
            70'000'000 % limits::kDataFileBlocksLarge * kBlockBytes);
  const BlockNumber last = limits::kTargetBlocksMax - 1;
  EXPECT_EQ(DataFiles::index_of(last), limits::kDataFilesMax - 1);
  EXPECT_EQ(DataFiles::offset_of(last), 64 * kGiB - kBlockBytes);
  EXPECT_EQ(DataFiles::name(limits::kDataFilesMax - 1), "data-32511");
}

TEST(Places, begin_a_file_where_the_file_says) {
  for (uint32_t index = 0; index < limits::kDataFilesMax; ++index) {
    const BlockNumber first = DataFiles::first_block_of(index);
    ASSERT_EQ(DataFiles::index_of(first), index);
    ASSERT_EQ(DataFiles::offset_of(first), 0u);
    const BlockNumber last = first + DataFiles::blocks_max_of(index) - 1;
    ASSERT_EQ(DataFiles::index_of(last), index);
    ASSERT_EQ(DataFiles::index_of(DataFiles::name(index)), index);
  }
  EXPECT_FALSE(DataFiles::index_of(DataFiles::name(limits::kDataFilesMax)));
}

}  // namespace
}  // namespace penstock::store
