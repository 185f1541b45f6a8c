// The block maps in memory: a hash table over a pool, bounded by evicting clean maps that nothing
// uses, least recently used first (clock). What is evicted leaves its places in a RunIndex, which
// shares the bound: first come the places of all maps, as far as three quarters of it, then whole
// maps.
//
// Of a map that is here the RunIndex may say what is not true any more: find() comes first.
#pragma once

#include "block_map.h"
#include "pool.h"
#include "run_index.h"

#include <algorithm>

#include "penstock/engine.h"

namespace penstock::store {

struct MapLoad;

struct CachedMap : BlockMap {
  MapKey key;
  // Requests that need it to stay where it is.
  uint32_t pins = 0;
  // Commit groups that hold it: its content is newer than the KV store's until this is 0.
  uint16_t pending = 0;
  bool gathered = false;    // it is in the group that gathers now
  bool committing = false;  // a transaction that writes it is under way
  bool logged = false;      // the log has changes of it that are not committed
  bool referenced = false;  // used since the clock's hand passed
  bool in_table = false;
  // Of its quarters: what was changed since it was last encoded for a commit; what has a record by
  // then, and whether these say where the blocks are.
  uint8_t dirty = 0;
  uint8_t stored = 0;
  bool stored_wide = false;
  MapLoad* load = nullptr;  // being read from the KV store; the content means nothing yet
  CachedMap* hash_next = nullptr;
  CachedMap* pool_next = nullptr;

  // What was just read is what is stored.
  void note_stored() {
    stored = 0;
    for (uint32_t quarter = 0; quarter < limits::kMapQuarters; ++quarter) {
      if (mapped_of(quarter) != 0) stored |= static_cast<uint8_t>(1 << quarter);
    }
    stored_wide = is_scattered_wide(*this);
  }
};

class MapIndex {
 public:
  explicit MapIndex(uint64_t bytes_max);
  bool valid() const {
    return pool_.valid() && static_cast<bool>(buckets_memory_) && runs_.valid();
  }

  // A lookup misses the processor's caches twice. A caller with several to do calls these for all
  // of them first, one after the other, so that the misses are waited for together. The second ones
  // are loads whose values are not used: measured on a virtual machine, these halve the time of
  // lookups, and prefetches, which miss the caches of address translation as well, change nothing.
  void prefetch_bucket(const MapKey& key) const { __builtin_prefetch(&buckets_[bucket_of(key)]); }
  void touch_map(const MapKey& key, uint32_t block) const {
    const CachedMap* map = buckets_[bucket_of(key)];
    if (map != nullptr) asm volatile("" ::"r"(map->key.index), "r"(map->blocks[block].crc));
  }

  // Null when it is not in memory.
  CachedMap* find(const MapKey& key) {
    for (CachedMap* map = buckets_[bucket_of(key)]; map != nullptr; map = map->hash_next) {
      if (map->key == key) {
        map->referenced = true;
        return map;
      }
    }
    return nullptr;
  }
  // A new empty map for a key that is not here. May evict others to stay within the bound.
  CachedMap& insert(const MapKey& key);
  // Takes it out of the table: find() does not see it any more. The object goes back to the pool
  // now, or when the last pin and pending group let go of it (release_if_unused).
  void remove(CachedMap& map);
  // To be called when `pins` or `pending` became 0: an object out of the table is given back, an
  // empty one of a complete index leaves.
  void release_if_unused(CachedMap& map);

  // What is known of a map that find() does not find.
  RunIndex::Known look(const MapKey& key) const { return runs_.look(key); }
  RunIndex& runs() { return runs_; }

  uint32_t size() const { return size_; }
  uint32_t maps_max() const {
    const uint64_t left = bytes_max_ - std::min(bytes_max_, runs_.bytes());
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(left / sizeof(CachedMap), limits::kMapsCachedMin, capacity_));
  }

 private:
  // A cache line of buckets, and a page of such lines.
  static constexpr uint32_t kLine = 64 / sizeof(CachedMap*);
  static constexpr uint32_t kPageLines = 64;

  // Neighbouring maps of a chunk have buckets in one cache line, neighbouring chunks of a file in
  // one page: what the maps of a file need of the table is as small as it can be. Where in its line
  // and page a file begins is random, so that small files spread over all buckets.
  size_t bucket_of(const MapKey& key) const {
    const uint64_t file = mix64(key.chunk.inode.value ^ (uint64_t{key.chain.value} << 32));
    const uint64_t page =
        mix64(file ^ (uint64_t{key.chunk.index / kPageLines} << 16 | key.index / kLine));
    const uint64_t line = (key.chunk.index + (file >> 32)) % kPageLines;
    return ((page * kPageLines + line) * kLine + (key.index + file) % kLine) & bucket_mask_;
  }
  void unlink(CachedMap& map);
  void evict_one();

  const uint64_t bytes_max_;
  const uint32_t capacity_;
  size_t bucket_mask_;
  MappedMemory buckets_memory_;
  CachedMap** buckets_;
  Pool<CachedMap> pool_;
  uint32_t hand_ = 0;
  uint32_t size_ = 0;
  RunIndex runs_;
};

}  // namespace penstock::store
