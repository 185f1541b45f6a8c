#include "chunk_locks.h"
#include "map_index.h"

#include <gtest/gtest.h>

namespace penstock::store {
namespace {

MapKey key_of(uint32_t n) {
  return {ChainId(n / 200), {InodeId(1 + n / 100), n % 100}, n % 7};
}

TEST(MapIndex, finds_what_was_inserted_and_nothing_else) {
  MapIndex index(1000);
  for (uint32_t n = 0; n < 500; ++n) index.insert(key_of(n)).valid_end = n + 1;
  for (uint32_t n = 0; n < 500; ++n) {
    CachedMap* map = index.find(key_of(n));
    ASSERT_NE(map, nullptr);
    EXPECT_EQ(map->valid_end, n + 1);
  }
  EXPECT_EQ(index.find(key_of(500)), nullptr);
  EXPECT_TRUE(index.complete());
}

TEST(MapIndex, stays_within_its_bound_and_keeps_what_is_in_use) {
  MapIndex index(100);
  CachedMap& pinned = index.insert(key_of(0));
  pinned.pins = 1;
  pinned.valid_end = 1;
  CachedMap& pending = index.insert(key_of(1));
  pending.pending = 1;
  for (uint32_t n = 2; n < 1000; ++n) {
    index.insert(key_of(n)).valid_end = 1;
    ASSERT_LE(index.size(), 100u);
  }
  EXPECT_FALSE(index.complete());
  EXPECT_EQ(index.find(key_of(0)), &pinned);
  EXPECT_EQ(index.find(key_of(1)), &pending);
}

TEST(MapIndex, evicts_what_was_not_used_before_what_was) {
  MapIndex index(100);
  for (uint32_t n = 0; n < 100; ++n) index.insert(key_of(n)).valid_end = 1;
  index.insert(key_of(100)).valid_end = 1;  // takes every mark away and evicts one
  uint32_t kept = 0;
  for (uint32_t n = 1; n < 50; ++n) index.find(key_of(n));
  for (uint32_t n = 101; n < 140; ++n) index.insert(key_of(n)).valid_end = 1;
  for (uint32_t n = 1; n < 50; ++n) kept += index.find(key_of(n)) != nullptr ? 1 : 0;
  EXPECT_EQ(kept, 49u);
}

TEST(MapIndex, grows_beyond_its_bound_when_everything_is_in_use) {
  MapIndex index(limits::kMapsCachedMin);
  for (uint32_t n = 0; n < 2 * limits::kMapsCachedMin; ++n) index.insert(key_of(n)).pins = 1;
  EXPECT_EQ(index.size(), 2 * limits::kMapsCachedMin);
  EXPECT_TRUE(index.complete());
}

TEST(MapIndex, keeps_a_removed_map_until_its_last_user_lets_go) {
  MapIndex index(100);
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
