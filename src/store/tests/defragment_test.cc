// The defragmenter on simulated disk and database.
#include "rig.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

namespace penstock::store {
namespace {

using limits::kBlockBytes;

constexpr uint32_t kLength = 2 * kMiB;
constexpr uint32_t kBlocks = kLength / kBlockBytes;
constexpr DefragmentConfig kSoon{.wait = std::chrono::milliseconds(1)};

class Defragmenting : public testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::off); }
  void TearDown() override { log::set_level(log::Level::warning); }

  // A chunk whose blocks were all overwritten in random order, durably and with nobody at work.
  void scatter(Rig& rig) {
    ASSERT_TRUE(rig.begin()) << rig.refusal.message;
    rig.target().set_defragment(false);
    content = test::content(kLength, 1);
    ASSERT_TRUE(rig.write(kChunk, 0, content).ok());
    ASSERT_EQ(rig.target().status().scattered_bytes, 0u);
    std::vector<uint32_t> order(kBlocks);
    std::iota(order.begin(), order.end(), 0);
    for (uint32_t i = kBlocks; i-- > 1;)
      std::swap(order[i], order[rig.world.random().below(i + 1)]);
    for (const uint32_t block : order) overwrite(rig, block, 100 + block);
    ASSERT_TRUE(rig.sync().ok());
    ASSERT_EQ(rig.target().status().scattered_bytes, kLength);
  }
  void overwrite(Rig& rig, uint32_t block, uint64_t seed) {
    auto bytes = test::content(kBlockBytes, seed);
    ASSERT_TRUE(rig.write(kChunk, block * kBlockBytes, bytes, false).ok());
    std::copy(bytes.begin(), bytes.end(), content.begin() + block * kBlockBytes);
  }
  static bool run_until_mended(Rig& rig) {
    rig.target().set_defragment(true);
    return rig.world.run_until([&] { return rig.target().status().scattered_bytes == 0; },
                               std::chrono::minutes(1));
  }
  // Every block is free or mapped.
  static void expect_no_leak(Rig& rig) {
    rig.target().set_defragment(false);
    ASSERT_TRUE(rig.world.run_until([&] { return rig.core().defragmenter.idle(); }));
    ASSERT_TRUE(rig.sync().ok());
    EXPECT_EQ(rig.core().allocator.free_blocks() + rig.core().mapped_blocks,
              rig.core().allocator.total_blocks());
    EXPECT_TRUE(rig.core().allocator.consistent());
  }
  static uint64_t operations_of_read(Rig& rig) {
    const uint64_t before = rig.platter.operations();
    (void)rig.read(kChunk, 0, kMiB);
    return rig.platter.operations() - before;
  }

  std::vector<std::byte> content;
};

TEST_F(Defragmenting, brings_scattered_blocks_together) {
  Rig rig(1, {.defragment = kSoon});
  scatter(rig);
  EXPECT_GT(operations_of_read(rig), 200u);
  ASSERT_TRUE(run_until_mended(rig));
  EXPECT_LE(operations_of_read(rig), 4u);
  EXPECT_EQ(rig.read(kChunk, 0, kLength), content);
  EXPECT_EQ(rig.target().status().moved_bytes, kLength);
  EXPECT_EQ(rig.target().status().used_bytes, kLength);
  expect_no_leak(rig);
  rig.power_cut();
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.read(kChunk, 0, kLength), content);
  EXPECT_LE(operations_of_read(rig), 4u);
}

TEST_F(Defragmenting, finds_what_an_earlier_life_scattered) {
  Rig rig(2, {.map_cache_bytes = 1, .defragment = kSoon});
  scatter(rig);
  ASSERT_TRUE(rig.close().ok());
  ASSERT_TRUE(rig.begin());
  EXPECT_EQ(rig.target().status().scattered_bytes, kLength);
  ASSERT_TRUE(run_until_mended(rig));
  EXPECT_EQ(rig.read(kChunk, 0, kLength), content);
}

TEST_F(Defragmenting, does_nothing_when_switched_off_and_sleeps_when_done) {
  Rig rig(3, {.defragment = kSoon});
  scatter(rig);
  uint64_t operations = rig.platter.operations();
  rig.world.run_for(std::chrono::hours(1));
  EXPECT_EQ(rig.platter.operations(), operations);
  ASSERT_TRUE(run_until_mended(rig));
  ASSERT_TRUE(rig.sync().ok());
  rig.world.run_for(std::chrono::seconds(1));
  operations = rig.platter.operations();
  EXPECT_TRUE(rig.core().defragmenter.idle()) << "no timer wakes a processor for nothing";
  rig.world.run_for(std::chrono::hours(1));
  EXPECT_EQ(rig.platter.operations(), operations);
}

TEST_F(Defragmenting, leaves_most_of_the_time_to_others) {
  // How long it takes alone, and beside somebody who reads all the time.
  const auto time_beside = [this](bool reader) {
    Rig rig(4, {.defragment = kSoon});
    scatter(rig);
    rig.target().set_defragment(true);
    const auto began = rig.world.now();
    const auto mended = [&] { return rig.target().status().scattered_bytes == 0; };
    while (reader && !mended() && rig.world.now() < began + std::chrono::minutes(1)) {
      (void)rig.read(kChunk, 0, 4096);
    }
    EXPECT_TRUE(rig.world.run_until(mended, std::chrono::minutes(1)));
    return rig.world.now() - began;
  };
  const auto alone = time_beside(false);
  const auto beside = time_beside(true);
  // Two pieces: the second comes after a rest of seven times what the first took, at least.
  EXPECT_GT(beside, alone / 2 * (1 + limits::kMovePause + 1));
  EXPECT_LT(beside, alone * 100) << "it goes on, too";
}

TEST_F(Defragmenting, leaves_damaged_blocks_where_they_are) {
  Rig rig(5, {.defragment = kSoon});
  scatter(rig);
  constexpr uint32_t kBad = 77;
  const MapKey key{ChainId{}, kChunk, kBad / limits::kMapBlocks};
  const auto place = [&] {
    return rig.core().index.find(key)->blocks[kBad % limits::kMapBlocks].physical;
  };
  const uint32_t before = place();
  rig.platter.flip_bit("/target/data-0000", uint64_t{before} * kBlockBytes + 100, 3);
  ASSERT_TRUE(run_until_mended(rig)) << "two places more are not worth a repetition";
  EXPECT_EQ(place(), before) << "the evidence stays";
  EXPECT_EQ(rig.target().status().moved_bytes, kLength - kBlockBytes);
  Status status;
  (void)rig.read(kChunk, kBad * kBlockBytes, kBlockBytes, &status);
  EXPECT_EQ(status.code(), Code::corrupt);
  ScrubOp scrub;
  EXPECT_TRUE(rig.run(scrub).ok());
  EXPECT_EQ(scrub.damaged_blocks, 1u);
  // As soon as the place is mended, so is the block.
  rig.platter.flip_bit("/target/data-0000", uint64_t{before} * kBlockBytes + 100, 3);
  EXPECT_EQ(rig.read(kChunk, 0, kLength), content);
  expect_no_leak(rig);
}

TEST_F(Defragmenting, ends_without_room_and_goes_on_when_there_is_some) {
  Rig rig(6, {.capacity_bytes = 16 * kMiB, .defragment = kSoon});
  scatter(rig);
  // All but what is left of a sixteenth.
  const ChunkId other{InodeId(6), 0};
  auto filling = test::content(13 * kMiB + 512 * kKiB, 3);
  ASSERT_TRUE(rig.write(other, 0, filling).ok());
  rig.target().set_defragment(true);
  rig.world.run_for(std::chrono::minutes(5));
  EXPECT_EQ(rig.target().status().moved_bytes, 0u);
  auto bytes = test::content(kBlockBytes, 4);
  EXPECT_TRUE(rig.write(other, 0, bytes).ok()) << "the room is there for others";
  ASSERT_TRUE(rig.clear(other, 0, kWholeChunk).ok());
  EXPECT_TRUE(rig.world.run_until([&] { return rig.target().status().scattered_bytes == 0; },
                                  2 * std::chrono::minutes(10)));
  EXPECT_EQ(rig.read(kChunk, 0, kLength), content);
  expect_no_leak(rig);
}

TEST_F(Defragmenting, leaves_to_writers_what_they_write_meanwhile) {
  // A write at each moment of the first move, told by the disk's operations.
  for (uint64_t moment = 0; moment < 300; moment += 7) {
    Rig rig(7, {.defragment = kSoon});
    scatter(rig);
    rig.target().set_defragment(true);
    const uint64_t begin = rig.platter.operations();
    rig.world.run_until([&] { return rig.platter.operations() >= begin + moment; },
                        std::chrono::seconds(1));
    overwrite(rig, static_cast<uint32_t>(moment % 256), 5000 + moment);
    ASSERT_TRUE(run_until_mended(rig)) << moment;
    ASSERT_EQ(rig.read(kChunk, 0, kLength), content) << moment;
    expect_no_leak(rig);
  }
}

TEST_F(Defragmenting, moves_nothing_of_what_an_update_has_in_hand) {
  // The look at the ranges that counts comes after the write, one operation behind 256 reads.
  for (uint64_t moment = 0; moment < 300; moment += moment < 250 || moment > 262 ? 25 : 1) {
    Rig rig(7, {.defragment = kSoon});
    scatter(rig);
    rig.target().set_defragment(true);
    const uint64_t begin = rig.platter.operations();
    rig.world.run_until([&] { return rig.platter.operations() >= begin + moment; },
                        std::chrono::seconds(1));
    // As an update that merges with a block of the first piece and takes its time.
    RangeLock range;
    range.begin = 10;
    range.end = 11;
    ASSERT_TRUE(rig.core().locks.acquire({ChainId{}, kChunk}, range));
    const auto place = [&] {
      return rig.core().index.find({ChainId{}, kChunk, 0})->blocks[10].physical;
    };
    const uint32_t before = place();
    rig.world.run_for(std::chrono::milliseconds(100));
    EXPECT_EQ(place(), before) << moment;
    EXPECT_GE(rig.target().status().moved_bytes, kMiB) << "the other piece";
    rig.core().locks.release(range, [](RangeLock&) {});
    ASSERT_TRUE(run_until_mended(rig)) << moment;
    ASSERT_EQ(rig.read(kChunk, 0, kLength), content) << moment;
  }
}

TEST_F(Defragmenting, loses_nothing_in_a_crash_at_any_moment) {
  for (uint64_t moment = 0; moment < 540; moment += 11) {
    Rig rig(8 + moment, {.defragment = kSoon});
    scatter(rig);
    rig.target().set_defragment(true);
    const uint64_t begin = rig.platter.operations();
    rig.world.run_until([&] { return rig.platter.operations() >= begin + moment; },
                        std::chrono::seconds(1));
    if (moment % 2 == 0) {
      rig.kill();
    } else {
      rig.power_cut();
    }
    ASSERT_TRUE(rig.begin()) << moment << rig.refusal.message;
    ASSERT_EQ(rig.read(kChunk, 0, kLength), content) << moment;
    expect_no_leak(rig);
    ASSERT_TRUE(run_until_mended(rig)) << moment;
    ASSERT_EQ(rig.read(kChunk, 0, kLength), content) << moment;
  }
}

TEST_F(Defragmenting, ends_what_it_does_when_the_target_closes) {
  for (uint64_t moment = 0; moment < 300; moment += 19) {
    Rig rig(9, {.defragment = kSoon});
    scatter(rig);
    rig.target().set_defragment(true);
    const uint64_t begin = rig.platter.operations();
    rig.world.run_until([&] { return rig.platter.operations() >= begin + moment; },
                        std::chrono::seconds(1));
    ASSERT_TRUE(rig.close().ok()) << moment;
    ASSERT_TRUE(rig.begin()) << moment;
    ASSERT_EQ(rig.read(kChunk, 0, kLength), content) << moment;
    expect_no_leak(rig);
  }
}

}  // namespace
}  // namespace penstock::store
