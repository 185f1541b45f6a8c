// Where the blocks of many maps lie, in little memory: no checksums, and neighbours on the disk as
// one run. With this a read of a map that is not in memory begins at once, while its checksums are
// fetched.
//
// An entry is about four neighbouring maps of a chunk, 4 MiB, and takes 32 bytes with one run of
// blocks; further runs take 8 bytes each. What is used least recently (clock) goes when the bound
// is reached. What has many runs makes nothing go but others of its kind: a byte of it says least.
//
// Owner thread only.
#pragma once

#include "block_map.h"
#include "pool.h"

#include <span>

#include "penstock/engine.h"

namespace penstock::store {

class RunIndex {
 public:
  explicit RunIndex(uint64_t bytes_max);
  ~RunIndex();
  RunIndex(const RunIndex&) = delete;
  RunIndex& operator=(const RunIndex&) = delete;
  bool valid() const { return static_cast<bool>(entries_memory_) && buckets_memory_; }

  // What is known of a map here.
  enum class Known : uint8_t {
    nothing,
    places,  // all of its blocks
    no_map,  // there is none
  };
  Known look(const MapKey& key) const;
  // The places of blocks [first, first + out.size()) of a map that is known; checksums are 0.
  void copy(const MapKey& key, uint32_t first, std::span<BlockRef> out);

  // What is known of the map from now on. When there is no room for it nothing is known.
  void put(const MapKey& key, const BlockMap& map);
  void put(const MapKey& key, std::span<const MapRun> runs, bool exists);
  // Nothing is known of it from now on.
  void forget(const MapKey& key);

  // While true there is no map of which nothing is known here, but for those that the caller has.
  bool complete() const { return complete_; }
  void set_incomplete() { complete_ = false; }
  uint64_t bytes() const { return made_ * sizeof(Entry) + run_bytes_; }
  uint32_t entries() const { return size_; }

 private:
  static constexpr uint32_t kMaps = 4;
  static constexpr uint32_t kBlocks = kMaps * limits::kMapBlocks;
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint8_t kAll = (1 << kMaps) - 1;

  // A run in a word: the place, the first block of the entry's 1,024, the count less one.
  using Word = uint64_t;
  struct Entry {
    InodeId inode;
    ChainId chain;
    uint32_t chunk = 0;
    uint32_t next = kNone;  // in its bucket, or of those that are free
    uint16_t runs = 0;
    uint8_t part = 0;  // of the chunk
    uint8_t known : kMaps = 0;
    uint8_t referenced : 1 = 0;
    uint8_t used : 1 = 0;
    // The run, if there is one; the address of an array, if there are several.
    Word word = 0;
  };
  static_assert(sizeof(Entry) == 32);
  static_assert(limits::kChunkMapsMax / kMaps <= 256 && kBlocks <= UINT16_MAX);

  static Word pack(const MapRun& run);
  static MapRun unpack(Word word);
  static std::span<const Word> words_of(const Entry& entry);

  uint32_t bucket_of(const MapKey& key) const;
  Entry* find(const MapKey& key) const;
  Entry* make(const MapKey& key);
  void take_out(Entry& entry);
  bool set_words(Entry& entry, std::span<const Word> words);
  bool evict();
  bool evict_array(const Entry& keep);

  const uint64_t bytes_max_;
  const uint32_t entries_max_;
  const uint32_t bucket_mask_;
  MappedMemory entries_memory_;
  MappedMemory buckets_memory_;
  Entry* const entries_;
  uint32_t* const buckets_;  // one more than the entry's number; 0: none
  uint32_t made_ = 0;        // entries that were ever used
  uint32_t free_ = kNone;
  uint32_t size_ = 0;
  uint32_t hand_ = 0;
  uint32_t array_hand_ = 0;
  uint64_t run_bytes_ = 0;
  bool complete_ = true;
};

}  // namespace penstock::store
