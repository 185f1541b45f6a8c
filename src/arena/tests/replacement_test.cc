// Who stays, who goes, and where extents lie.
#include "limits.h"
#include "rig.h"

namespace penstock::arena {
namespace {

struct LogMemory {
  alignas(64) TouchLogMemory memory{};
  MutableBytes bytes() { return std::as_writable_bytes(std::span(&memory, 1)); }
};

// As an agent serves reads: what is here is a hit, what is not is read from the disk and may come
// in.
bool read_extent(Rig& rig, TouchLog& log, Extent extent) {
  if (const Found found = rig.reader->find(extent)) {
    log.touch(found.slot);
    return true;
  }
  if (rig.segment->touch(extent, 0, kBlocks)) rig.put(extent);
  return false;
}

TEST(Replacement, keeps_the_hot_set_through_a_scan_of_ten_times_the_arena) {
  Rig rig(16);
  constexpr uint32_t kSlots = 256, kHot = 128;
  LogMemory memory;
  TouchLog log(memory.bytes());
  ASSERT_EQ(rig.segment->add_log(1, memory.bytes()), Code::ok);
  for (int pass = 0; pass < 3; ++pass) {
    for (uint32_t i = 0; i < kHot; ++i) read_extent(rig, log, extent_of(1, i));
  }
  for (uint32_t i = 0; i < 10 * kSlots; ++i) {
    read_extent(rig, log, extent_of(2, i));
    EXPECT_TRUE(read_extent(rig, log, extent_of(1, i % kHot))) << "after " << i;
  }
  rig.segment->remove_log(1);
  EXPECT_EQ(rig.segment->status().evictions, 0u) << "the scan brought something in";
}

TEST(Replacement, keeps_the_hot_set_through_explicit_fills) {
  Rig rig(16);
  constexpr uint32_t kSlots = 256, kHot = 64;
  LogMemory memory;
  TouchLog log(memory.bytes());
  ASSERT_EQ(rig.segment->add_log(1, memory.bytes()), Code::ok);
  for (uint32_t i = 0; i < kHot; ++i) ASSERT_TRUE(rig.put(extent_of(1, i)));
  uint32_t misses = 0;
  for (uint32_t i = 0; i < 10 * kSlots; ++i) {
    ASSERT_TRUE(rig.put(extent_of(2, i)));
    misses += read_extent(rig, log, extent_of(1, i % kHot)) ? 0 : 1;
  }
  rig.segment->remove_log(1);
  EXPECT_EQ(misses, 0u);
  EXPECT_GT(rig.segment->status().evictions, 8 * kSlots);
}

TEST(Replacement, lets_go_of_what_came_first) {
  Rig rig(4);
  for (uint32_t i = 0; i < 64 + 20; ++i) ASSERT_TRUE(rig.put(extent_of(1, i)));
  for (uint32_t i = 0; i < 84; ++i) EXPECT_EQ(rig.has(extent_of(1, i)), i >= 20) << i;
}

TEST(Replacement, takes_nothing_from_a_range_that_is_asked_for_again_for_the_rest_of_it) {
  Rig rig(4);
  constexpr uint32_t kSlots = 64, kThere = 8, kAsked = 12;
  // What is there of it is next to go.
  for (uint32_t i = 0; i < kThere; ++i) ASSERT_TRUE(rig.put(extent_of(1, i)));
  for (uint32_t i = kThere; i < kSlots; ++i) ASSERT_TRUE(rig.put(extent_of(2, i)));
  for (uint32_t i = 0; i < kAsked; ++i) {
    EXPECT_EQ(rig.put(extent_of(1, i)), i >= kThere) << i << ": what is there needs no slot";
  }
  for (uint32_t i = 0; i < kAsked; ++i) EXPECT_TRUE(rig.has(extent_of(1, i))) << i;
}

// Each part that is missing must not keep slots of its own for all that follows: the hand would
// come round to what has just been brought in.
TEST(Replacement, brings_in_all_of_a_range_of_which_any_parts_are_there) {
  constexpr uint32_t kSlots = 64, kAsked = 24;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Rig rig(4);
    // Some of it in any order, between others, with the hand anywhere.
    for (uint32_t i = 0; i < kSlots + seed % kSlots; ++i) {
      const uint64_t random = mix64(seed * 1000 + i);
      const bool of_range = random % 3 == 0;
      const auto number = static_cast<uint32_t>(random / 3 % kAsked);
      (void)rig.put(of_range ? extent_of(1, number) : extent_of(2, i));
    }
    for (uint32_t i = 0; i < kAsked; ++i) {
      (void)rig.put(extent_of(1, i), 1, kExtentBytes, kAsked - 1 - i);
      ASSERT_TRUE(rig.has(extent_of(1, i))) << i;
    }
    for (uint32_t i = 0; i < kAsked; ++i) {
      ASSERT_TRUE(rig.has(extent_of(1, i))) << i << " with seed " << seed;
    }
  }
}

TEST(Replacement, evicts_nothing_when_it_is_not_to) {
  Rig rig(1);
  for (uint32_t i = 0; i < 16; ++i) ASSERT_TRUE(rig.put(extent_of(1, i)));
  Segment::Fill fill;
  EXPECT_EQ(rig.segment->begin_fill(extent_of(2, 0), 0, false, &fill), Segment::Start::crowded);
  rig.segment->invalidate(InodeId(1), 5 * kExtentBytes, 1);
  EXPECT_EQ(rig.segment->begin_fill(extent_of(2, 0), 0, false, &fill), Segment::Start::begun);
  rig.segment->abandon(fill);
}

TEST(Replacement, is_crowded_when_everything_is_being_filled) {
  Rig rig(1);
  std::vector<Segment::Fill> fills(17);
  for (uint32_t i = 0; i < 16; ++i) ASSERT_TRUE(rig.begin(extent_of(1, i), &fills[i]));
  EXPECT_EQ(rig.segment->begin_fill(extent_of(1, 16), 0, true, &fills[16]),
            Segment::Start::crowded);
  for (uint32_t i = 0; i < 16; ++i) rig.segment->abandon(fills[i]);
}

// Extents of a file that are neighbours in memory too, of `count` from its beginning.
uint32_t neighbours(const Rig& rig, uint64_t inode, uint32_t count) {
  uint32_t together = 0;
  for (uint32_t i = 1; i < count; ++i) {
    const Found before = rig.reader->find(extent_of(inode, i - 1));
    const Found here = rig.reader->find(extent_of(inode, i));
    together += before && here && here.data == before.data + kExtentBytes ? 1 : 0;
  }
  return together;
}

TEST(Replacement, puts_extents_of_streams_side_by_side) {
  Rig rig(16);
  // Four files at once, and all of it twice: into free slots, then into those of others.
  for (const uint64_t first : {10u, 20u}) {
    for (uint32_t i = 0; i < 64; ++i) {
      for (uint64_t file = first; file < first + 4; ++file) {
        ASSERT_TRUE(rig.put(extent_of(file, i), 1, kExtentBytes, 63 - i));
      }
    }
    for (uint64_t file = first; file < first + 4; ++file) {
      EXPECT_EQ(neighbours(rig, file, 64), 63u) << "file " << file;
    }
  }
}

// As the agent does, which would rather grow than evict.
TEST(Replacement, keeps_a_stream_together_that_asks_first_without_evicting) {
  constexpr uint32_t kSlots = 128, kAsked = 17;
  Rig rig(kSlots / 16);
  for (uint32_t i = 0; i < kSlots; ++i) ASSERT_TRUE(rig.put(extent_of(2, i)));
  for (uint32_t i = 0; i < kAsked; ++i) {
    const uint32_t following = kAsked - 1 - i;
    Segment::Fill fill;
    ASSERT_FALSE(rig.begin(extent_of(1, i), &fill, following, false));
    ASSERT_TRUE(rig.put(extent_of(1, i), 1, kExtentBytes, following));
  }
  for (uint32_t i = 0; i < kAsked; ++i) EXPECT_TRUE(rig.has(extent_of(1, i))) << i;
  EXPECT_EQ(neighbours(rig, 1, kAsked), kAsked - 1);
}

TEST(Replacement, survives_a_touch_log_full_of_lies) {
  Rig rig(1);
  LogMemory memory;
  ASSERT_EQ(rig.segment->add_log(1, memory.bytes()), Code::ok);
  for (uint64_t i = 0; i < 200; ++i) {
    memory.memory.head = mix64(i);
    memory.memory.hits = mix64(i + 1000);
    for (uint32_t& slot : memory.memory.slot) slot = static_cast<uint32_t>(mix64(slot + i));
    ASSERT_TRUE(rig.put(extent_of(1, static_cast<uint32_t>(i))));
  }
  rig.segment->remove_log(1);
}

}  // namespace
}  // namespace penstock::arena
