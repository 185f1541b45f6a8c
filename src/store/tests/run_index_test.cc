#include "run_index.h"

#include <gtest/gtest.h>
#include <map>

#include "penstock/engine.h"

namespace penstock::store {
namespace {

using Known = RunIndex::Known;

MapKey key_at(uint64_t n) {
  return {ChainId(static_cast<uint32_t>(n % 3)),
          {InodeId(1 + n / 500), static_cast<uint32_t>(n / 7 % 40)},
          static_cast<uint32_t>(n % 64)};
}

// `count` blocks from `first` on in one run.
BlockMap run_of(uint32_t first, uint32_t count, BlockNumber place) {
  BlockMap map;
  for (uint32_t b = 0; b < count; ++b) map.blocks[first + b] = {place + b, 0};
  map.valid_end = limits::kMapBytes;
  return map;
}

BlockMap copy_of(RunIndex& index, const MapKey& key) {
  BlockMap map;
  index.copy(key, 0, map.blocks);
  return map;
}

TEST(RunIndex, tells_places_of_what_it_was_told_and_knows_what_there_is_not) {
  RunIndex index(kMiB);
  const MapKey key{ChainId(1), {InodeId(5), 2}, 9};
  EXPECT_EQ(index.look(key), Known::no_map) << "nothing is missing";
  const BlockMap map = run_of(3, 200, limits::kTargetBlocksMax - 200);
  index.put(key, map);
  EXPECT_EQ(index.look(key), Known::places);
  EXPECT_EQ(copy_of(index, key).blocks, map.blocks);
  EXPECT_EQ(index.look({key.chain, key.chunk, 8}), Known::no_map);
  EXPECT_EQ(index.look({key.chain, key.chunk, 13}), Known::no_map);
  std::array<BlockRef, 10> some;
  index.copy(key, 199, some);
  EXPECT_EQ(some[3].physical, map.blocks[202].physical);
  EXPECT_TRUE(some[4].hole());
  index.put(key, BlockMap());
  EXPECT_EQ(index.look(key), Known::no_map);
}

TEST(RunIndex, does_not_take_a_map_without_blocks_for_none) {
  RunIndex index(kMiB);
  const MapKey key{ChainId(1), {InodeId(5), 2}, 9};
  BlockMap holes;
  holes.valid_end = 100;
  index.put(key, holes);
  EXPECT_EQ(index.look(key), Known::nothing) << "it must be read to be known";
  EXPECT_EQ(index.look({key.chain, key.chunk, 10}), Known::no_map);
}

TEST(RunIndex, forgets) {
  RunIndex index(kMiB);
  const MapKey key{ChainId(1), {InodeId(5), 2}, 9};
  index.put(key, run_of(0, 256, 7));
  index.put({key.chain, key.chunk, 10}, run_of(0, 256, 7 + 256));
  index.forget(key);
  EXPECT_EQ(index.look(key), Known::nothing);
  EXPECT_EQ(index.look({key.chain, key.chunk, 10}), Known::places);
  index.forget({key.chain, {InodeId(9), 2}, 10});
  EXPECT_EQ(index.look({key.chain, {InodeId(9), 2}, 10}), Known::nothing);
}

TEST(RunIndex, needs_32_bytes_for_4_MiB_in_one_run) {
  RunIndex index(16 * kMiB);
  constexpr uint32_t kChunks = 10'000;
  for (uint32_t n = 0; n < kChunks * 4; ++n) {
    index.put({ChainId{}, {InodeId(1), n / 4}, n % 4}, run_of(0, 256, BlockNumber{n} * 256));
  }
  EXPECT_EQ(index.entries(), kChunks);
  EXPECT_EQ(index.bytes(), kChunks * 32u);
  EXPECT_TRUE(index.complete());
}

TEST(RunIndex, stays_within_its_bound_and_says_so) {
  constexpr uint64_t kBytes = 64 * kKiB;
  RunIndex index(kBytes);
  engine::SeededRandom random(1);
  for (uint32_t n = 0; n < 20'000; ++n) {
    BlockMap map = run_of(0, 256, random.below(1u << 30));
    for (uint64_t hole = random.below(40); hole > 0; --hole) map.blocks[random.below(256)] = {};
    index.put(key_at(n), map);
    ASSERT_LE(index.bytes(), kBytes);
  }
  EXPECT_FALSE(index.complete());
  uint32_t known = 0;
  for (uint32_t n = 0; n < 20'000; ++n) known += index.look(key_at(n)) == Known::places ? 1 : 0;
  EXPECT_GT(known, 50u);
  EXPECT_LT(known, 5'000u);
}

TEST(RunIndex, keeps_what_is_read_rather_than_what_is_not) {
  RunIndex index(64 * kKiB);
  const MapKey often{ChainId(1), {InodeId(999'999), 2}, 9};
  for (uint32_t n = 0; n < 10; ++n) index.put(key_at(n), run_of(0, 256, 512));
  index.put(often, run_of(0, 256, 7));
  for (uint32_t n = 10; n < 20'000; ++n) {
    index.put(key_at(n), run_of(0, 256, 512));
    std::array<BlockRef, 1> one;
    ASSERT_EQ(index.look(often), Known::places);
    index.copy(often, 0, one);
  }
}

TEST(RunIndex, does_not_forget_many_large_runs_for_a_few_scattered_maps) {
  RunIndex index(256 * kKiB);
  uint32_t large = 0;
  while (index.complete()) {
    index.put({ChainId{}, {InodeId(1), large++}, 0}, run_of(0, 256, 7));
  }
  BlockMap scattered;
  for (uint32_t b = 0; b < 256; ++b) scattered.blocks[b] = {10'000 + 2 * b, 0};
  scattered.valid_end = limits::kMapBytes;
  for (uint32_t n = 0; n < 500; ++n) {
    index.put({ChainId{}, {InodeId(2), n}, 0}, scattered);
    ASSERT_LE(index.bytes(), 256 * kKiB);
  }
  uint32_t kept = 0;
  for (uint32_t n = 0; n < large; ++n) {
    kept += index.look({ChainId{}, {InodeId(1), n}, 0}) == Known::places ? 1 : 0;
  }
  EXPECT_GT(kept, large - 1000);
  EXPECT_GT(large, 7000u);
}

// What it says is what it was told last, or nothing.
TEST(RunIndex, behaves_like_a_plain_map_when_used_at_random) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    engine::SeededRandom random(seed);
    RunIndex index(seed % 2 == 0 ? 16 * kMiB : 40 * kKiB);
    std::map<MapKey, BlockMap> model;
    for (int step = 0; step < 6000; ++step) {
      const MapKey key = key_at(random.below(3000));
      const uint64_t kind = random.below(8);
      if (kind == 0) {
        index.put(key, BlockMap());
        model.erase(key);
      } else if (kind < 5) {
        BlockMap map = model[key];
        const auto first = static_cast<uint32_t>(random.below(256));
        const auto count = static_cast<uint32_t>(1 + random.below(256 - first));
        const BlockNumber place = random.below(4000);
        for (uint32_t b = first; b < first + count; ++b) map.blocks[b] = {place + b, 0};
        map.valid_end = limits::kMapBytes;
        model[key] = map;
        index.put(key, map);
      } else if (kind == 5 && random.chance(1, 20)) {
        index.forget(key);
        ASSERT_EQ(index.look(key), Known::nothing);
      } else {
        const Known known = index.look(key);
        const auto found = model.find(key);
        const bool complete = seed % 2 == 0 && index.complete();
        ASSERT_FALSE(complete && known == Known::nothing);
        ASSERT_FALSE(known == Known::no_map && found != model.end());
        if (known != Known::places) continue;
        ASSERT_NE(found, model.end());
        const auto first = static_cast<uint32_t>(random.below(256));
        std::vector<BlockRef> out(1 + random.below(256 - first));
        index.copy(key, first, out);
        for (uint32_t b = 0; b < out.size(); ++b) {
          ASSERT_EQ(out[b].physical, found->second.blocks[first + b].physical);
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::store
