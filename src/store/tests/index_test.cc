#include "chunk_locks.h"
#include "map_index.h"

#include <gtest/gtest.h>

namespace penstock::store {
namespace {

MapKey key_of(uint32_t n) {
  return {ChainId(n / 200), {InodeId(1 + n / 100), n % 100}, n % 7};
}

// Memory for so many maps.
uint64_t bytes_of(uint64_t maps) {
  return maps * sizeof(CachedMap);
}

CachedMap& insert(MapIndex& index, const MapKey& key, BlockNumber place = 7) {
  CachedMap& map = index.insert(key);
  map.blocks[0] = {place, 1};
  map.valid_end = 1;
  return map;
}

TEST(MapIndex, finds_what_was_inserted_and_nothing_else) {
  MapIndex index(bytes_of(1000));
  for (uint32_t n = 0; n < 500; ++n) index.insert(key_of(n)).valid_end = n + 1;
  for (uint32_t n = 0; n < 500; ++n) {
    CachedMap* map = index.find(key_of(n));
    ASSERT_NE(map, nullptr);
    EXPECT_EQ(map->valid_end, n + 1);
  }
  EXPECT_EQ(index.find(key_of(500)), nullptr);
  EXPECT_EQ(index.look(key_of(500)), RunIndex::Known::no_map);
}

TEST(MapIndex, stays_within_its_bound_and_keeps_what_is_in_use) {
  MapIndex index(bytes_of(100));
  CachedMap& pinned = insert(index, key_of(0));
  pinned.pins = 1;
  CachedMap& pending = insert(index, key_of(1));
  pending.pending = 1;
  for (uint32_t n = 2; n < 1000; ++n) {
    insert(index, key_of(n), n);
    ASSERT_LE(index.size() * sizeof(CachedMap) + index.runs().bytes(), bytes_of(100));
  }
  EXPECT_EQ(index.find(key_of(0)), &pinned);
  EXPECT_EQ(index.find(key_of(1)), &pending);
  // What had to go has left its places.
  uint32_t gone = 0;
  for (uint32_t n = 2; n < 1000; ++n) {
    if (index.find(key_of(n)) != nullptr) continue;
    ++gone;
    ASSERT_EQ(index.look(key_of(n)), RunIndex::Known::places);
    std::array<BlockRef, 2> places;
    index.runs().copy(key_of(n), 0, places);
    EXPECT_EQ(places[0].physical, n);
    EXPECT_TRUE(places[1].hole());
  }
  EXPECT_GE(gone, 900u);
}

TEST(MapIndex, gives_memory_to_places_before_whole_maps) {
  MapIndex index(bytes_of(400));
  for (uint32_t n = 0; n < 400; ++n) insert(index, {ChainId(1), {InodeId(n), 0}, 0});
  EXPECT_GT(index.size(), 350u);
  for (uint32_t n = 0; n < 60'000; ++n) {
    index.runs().put({ChainId(2), {InodeId(n), 0}, 0}, std::array{MapRun{0, 1, n}}, true);
  }
  for (uint32_t n = 0; n < 400; ++n) insert(index, {ChainId(3), {InodeId(n), 0}, 0});
  EXPECT_LE(index.size(), 130u);
  EXPECT_GE(index.size(), 90u) << "a quarter is theirs in any case";
}

TEST(MapIndex, evicts_what_was_not_used_before_what_was) {
  MapIndex index(bytes_of(100));
  for (uint32_t n = 0; n < 100; ++n) insert(index, key_of(n));
  insert(index, key_of(100));  // takes every mark away and evicts two
  uint32_t kept = 0;
  for (uint32_t n = 2; n < 50; ++n) index.find(key_of(n));
  for (uint32_t n = 101; n < 140; ++n) insert(index, key_of(n));
  for (uint32_t n = 2; n < 50; ++n) kept += index.find(key_of(n)) != nullptr ? 1 : 0;
  EXPECT_EQ(kept, 48u);
}

TEST(MapIndex, grows_beyond_its_bound_when_everything_is_in_use) {
  MapIndex index(1);
  for (uint32_t n = 0; n < 2 * limits::kMapsCachedMin; ++n) index.insert(key_of(n)).pins = 1;
  EXPECT_EQ(index.size(), 2 * limits::kMapsCachedMin);
}

TEST(MapIndex, keeps_a_removed_map_until_its_last_user_lets_go) {
  MapIndex index(bytes_of(100));
  CachedMap& old = index.insert(key_of(0));
  old.pins = 1;
  index.remove(old);
  EXPECT_EQ(index.find(key_of(0)), nullptr);
  CachedMap& fresh = index.insert(key_of(0));
  EXPECT_NE(&fresh, &old);
  old.pins = 0;
  index.release_if_unused(old);
  EXPECT_EQ(index.find(key_of(0)), &fresh);
}

struct Held {
  RangeLock lock;
  Held(ChunkLocks& locks, ChunkId chunk, uint32_t begin, uint32_t end) {
    lock.begin = begin;
    lock.end = end;
    locks.acquire({ChainId{}, chunk}, lock);
  }
};

TEST(ChunkLocks, let_pass_what_does_not_overlap) {
  ChunkLocks locks;
  const ChunkId chunk{InodeId(1), 0};
  Held a(locks, chunk, 0, 10);
  Held b(locks, chunk, 10, 20);
  Held other(locks, {InodeId(1), 1}, 0, 10);
  EXPECT_TRUE(a.lock.held && b.lock.held && other.lock.held);
  const auto ignore = [](RangeLock&) {};
  for (Held* held : {&a, &b, &other}) locks.release(held->lock, ignore);
}

TEST(ChunkLocks, serve_in_order_what_overlaps) {
  ChunkLocks locks;
  const ChunkId chunk{InodeId(1), 0};
  Held a(locks, chunk, 0, 10);
  Held wide(locks, chunk, 5, 30);
  Held behind(locks, chunk, 20, 25);  // free of `a`, but must not overtake `wide`
  Held beside(locks, chunk, 40, 50);
  EXPECT_FALSE(wide.lock.held);
  EXPECT_FALSE(behind.lock.held);
  EXPECT_TRUE(beside.lock.held);
  std::vector<RangeLock*> granted;
  const auto note = [&](RangeLock& lock) { granted.push_back(&lock); };
  locks.release(a.lock, note);
  EXPECT_EQ(granted, std::vector{&wide.lock});
  locks.release(wide.lock, note);
  EXPECT_EQ(granted, (std::vector{&wide.lock, &behind.lock}));
  locks.release(behind.lock, note);
  locks.release(beside.lock, note);
}

}  // namespace
}  // namespace penstock::store
