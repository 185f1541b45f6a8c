#include "ring_memory.h"

#include <gtest/gtest.h>

namespace penstock::ring {
namespace {

TEST(Geometry, rounds_entries_up_and_keeps_the_limits) {
  EXPECT_EQ(Geometry::make(1, 1)->entries, 1u);
  EXPECT_EQ(Geometry::make(33, 64)->entries, 64u);
  EXPECT_EQ(Geometry::make(kEntriesMax, 1)->entries, kEntriesMax);
  EXPECT_FALSE(Geometry::make(0, 1));
  EXPECT_FALSE(Geometry::make(1, 0));
  EXPECT_FALSE(Geometry::make(kEntriesMax + 1, 1));
  EXPECT_FALSE(Geometry::make(UINT32_MAX, 1));
  EXPECT_FALSE(Geometry::make(1, kLanesMax + 1));
}

TEST(Geometry, keeps_queues_of_different_lanes_on_their_own_cache_lines) {
  for (uint32_t entries = 1; entries <= kEntriesMax; entries *= 2) {
    const Geometry geometry{entries, 3};
    EXPECT_TRUE(is_aligned(geometry.lane_bytes(), kCacheLine));
    EXPECT_GE(geometry.lane_bytes(), sizeof(LaneControl) + entries * 96);
  }
}

TEST(Memory, opens_what_was_formatted) {
  TestMemory made({16, 2});
  const Result<Memory> opened = Memory::open(made.bytes());
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->geometry().entries, 16u);
  EXPECT_EQ(opened->geometry().lanes, 2u);
}

TEST(Memory, refuses_a_header_with_any_changed_field) {
  // Every byte of the geometry matters, whatever it is changed to.
  TestMemory made({16, 2});
  for (size_t offset = 0; offset < 56; ++offset) {
    for (const int change : {0x01, 0x10, 0x80, 0xff}) {
      std::byte& target = made.bytes()[offset];
      const std::byte before = target;
      target ^= static_cast<std::byte>(change);
      EXPECT_FALSE(Memory::open(made.bytes())) << "offset " << offset << " change " << change;
      target = before;
    }
  }
  EXPECT_TRUE(Memory::open(made.bytes()));
}

TEST(Memory, says_when_the_version_is_another) {
  TestMemory made({16, 2});
  made.memory.header().version = kVersion + 1;
  EXPECT_EQ(Memory::open(made.bytes()).error(), Code::wrong_version);
}

TEST(Memory, refuses_memory_shorter_than_the_header_says) {
  TestMemory made({16, 2});
  const MutableBytes bytes = made.bytes();
  EXPECT_TRUE(Memory::open(bytes.first(made.memory.geometry().total_bytes())));
  EXPECT_FALSE(Memory::open(bytes.first(made.memory.geometry().total_bytes() - 1)));
  EXPECT_FALSE(Memory::open(bytes.first(kHeaderBytes - 1)));
  EXPECT_FALSE(Memory::open({}));
}

}  // namespace
}  // namespace penstock::ring
