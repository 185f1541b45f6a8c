#include "map_index.h"

#include <algorithm>

namespace penstock::store {
namespace {

uint32_t bounded(uint64_t maps_max) {
  constexpr uint64_t kMost = UINT32_MAX - limits::kMapsInUseMax;
  return static_cast<uint32_t>(std::clamp<uint64_t>(maps_max, limits::kMapsCachedMin, kMost));
}

}  // namespace

MapIndex::MapIndex(uint64_t bytes_max)
    : bytes_max_(bytes_max),
      capacity_(bounded(bytes_max / sizeof(CachedMap))),
      bucket_mask_(std::bit_ceil(size_t{capacity_}) - 1),
      buckets_memory_((bucket_mask_ + 1) * sizeof(CachedMap*)),
      buckets_(reinterpret_cast<CachedMap**>(buckets_memory_.data())),
      pool_(capacity_ + limits::kMapsInUseMax),
      runs_(bytes_max / 4 * limits::kRunsShareOf4) {}

CachedMap& MapIndex::insert(const MapKey& key) {
  DASSERT(find(key) == nullptr);
  // Two, where places have taken of its share.
  for (int i = 0; i < 2 && size_ >= maps_max(); ++i) evict_one();
  CachedMap* map = pool_.take();
  // What may be in use at a time is bounded below the pool's size (limits.h).
  ASSERT(map != nullptr);
  // An object that was given back is in no table, and no request or group uses it.
  ASSERT(!map->in_table && map->pins == 0 && map->pending == 0 && map->load == nullptr);
  map->reset();
  map->key = key;
  map->pins = 0;
  map->pending = 0;
  map->gathered = false;
  map->committing = false;
  map->referenced = true;
  map->in_table = true;
  map->dirty = map->stored = 0;
  map->stored_wide = false;
  map->load = nullptr;
  CachedMap*& head = buckets_[bucket_of(key)];
  map->hash_next = std::exchange(head, map);
  ++size_;
  return *map;
}

void MapIndex::unlink(CachedMap& map) {
  ASSERT(map.in_table && size_ > 0);
  CachedMap** link = &buckets_[bucket_of(map.key)];
  while (*link != &map) link = &(*link)->hash_next;
  *link = map.hash_next;
  map.in_table = false;
  --size_;
}

void MapIndex::remove(CachedMap& map) {
  ASSERT(map.load == nullptr);
  unlink(map);
  if (map.pins == 0 && map.pending == 0) pool_.give(map);
}

void MapIndex::release_if_unused(CachedMap& map) {
  if (map.pins != 0 || map.pending != 0 || map.load != nullptr) return;
  ASSERT(!map.gathered && !map.committing);
  if (!map.in_table) {
    pool_.give(map);
  } else if (runs_.complete() && map.empty()) {
    runs_.put(map.key, map);
    unlink(map);
    pool_.give(map);
  }
}

void MapIndex::evict_one() {
  // Two rounds: the first may only take marks away.
  const uint64_t steps = uint64_t{pool_.made()} * 2;
  for (uint64_t step = 0; step < steps; ++step) {
    if (hand_ >= pool_.made()) hand_ = 0;
    CachedMap& map = pool_.at(hand_++);
    if (!map.in_table || map.pins != 0 || map.pending != 0 || map.load != nullptr) continue;
    if (std::exchange(map.referenced, false)) continue;
    ASSERT(!map.gathered && !map.committing);
    ASSERT(map.dirty == 0);
    runs_.put(map.key, map);
    unlink(map);
    pool_.give(map);
    return;
  }
}

}  // namespace penstock::store
