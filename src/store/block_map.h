// Block maps and their form in the KV store (docs/formats/store.md).
#pragma once

#include "limits.h"

#include <array>
#include <optional>
#include <string_view>

#include "penstock/base.h"

namespace penstock::store {

inline constexpr BlockNumber kHole = (BlockNumber{1} << limits::kBlockNumberBits) - 1;
static_assert(limits::kTargetBlocksMax <= kHole, "no block has the number that means a hole");

// Where a block lives in the data files, and the CRC-32C of its 4096 bytes. Maps are kept in memory
// by the million, so it has no padding: its members are read and written, and never referred to.
struct [[gnu::packed]] BlockRef {
  BlockNumber physical : limits::kBlockNumberBits = kHole;
  uint32_t crc = 0;  // 0 for a hole

  bool hole() const { return physical == kHole; }
  friend bool operator==(const BlockRef&, const BlockRef&) = default;
};
static_assert(sizeof(BlockRef) == limits::kBlockNumberBits / 8 + sizeof(uint32_t));

struct MapKey {
  ChainId chain;
  ChunkId chunk;
  uint32_t index = 0;  // below kChunkMapsMax

  friend constexpr auto operator<=>(const MapKey&, const MapKey&) = default;
};

// 256 consecutive blocks of a chunk. Bytes at and beyond valid_end are zeros, so no block that
// begins there is mapped.
struct BlockMap {
  std::array<BlockRef, limits::kMapBlocks> blocks;
  uint32_t valid_end = 0;  // end of the last written byte, at most kMapBytes

  void reset() { *this = BlockMap(); }
  // Nothing to remember: it has no record.
  bool empty() const { return valid_end == 0; }
  uint32_t mapped() const;
  // Bit i: block i of the quarter is mapped.
  uint64_t mapped_of(uint32_t quarter) const;
  friend bool operator==(const BlockMap&, const BlockMap&) = default;
};

// Neighbouring blocks of a map that are neighbours on the disk.
struct MapRun {
  uint32_t first = 0;  // in the map
  uint32_t count = 0;
  BlockNumber place = 0;
};
// Calls `visit(run)` for the longest runs, in order.
template <class Visit>
void for_each_run(const BlockMap& map, Visit visit) {
  for (uint32_t i = 0; i < limits::kMapBlocks;) {
    const BlockNumber place = map.blocks[i].physical;
    if (place == kHole) {
      ++i;
      continue;
    }
    MapRun run{i, 1, place};
    while (i + run.count < limits::kMapBlocks &&
           map.blocks[i + run.count].physical == place + run.count) {
      ++run.count;
    }
    visit(run);
    i += run.count;
  }
}
uint32_t count_runs(const BlockMap& map);

// What the record of a map says.
struct MapPlaces {
  uint32_t valid_end = 0;
  bool wide = false;   // its quarters say where blocks are, and there are no runs here
  uint32_t count = 0;  // of `runs`
  std::array<MapRun, limits::kMapRunsNear> runs;
};
// Whether its records of quarters say where its blocks are.
inline bool is_scattered_wide(const BlockMap& map) {
  return count_runs(map) > limits::kMapRunsNear;
}

inline constexpr size_t kMapKeyBytes = 1 + 4 + 8 + 4 + 2;
inline constexpr size_t kMapRecordBytesMax = 8 + limits::kMapRunsNear * 8 + 4;
inline constexpr size_t kQuarterRecordBytesMax = 8 + 8 + limits::kQuarterBlocks * 9 + 4;
inline constexpr char kMapKeyType = 'M';
inline constexpr char kQuarterKeyType = 'K';

using EncodedMapKey = std::array<char, kMapKeyBytes>;
EncodedMapKey encode_key(const MapKey& key);
// The key of a quarter of a map, or of the first of another map.
EncodedMapKey encode_quarter_key(const MapKey& key, uint32_t quarter);
// The first key that is greater than every key of the inode in this chain.
EncodedMapKey encode_key_after(ChainId chain, InodeId inode);
std::optional<MapKey> decode_key(std::string_view key);
struct QuarterKey {
  MapKey map;
  uint32_t quarter = 0;
};
std::optional<QuarterKey> decode_quarter_key(std::string_view key);
inline std::string_view as_view(const EncodedMapKey& key) {
  return {key.data(), key.size()};
}

// What ends each record, over the key and all of the record before.
uint32_t map_checksum(std::string_view key, std::string_view content);

// A map's own record. `to` has room for kMapRecordBytesMax; returns the length. The map is not
// empty.
size_t encode_map(const MapKey& key, const BlockMap& map, char* to);
// Corrupt, or wrong_version for an intact record that uses what only other versions of this program
// know. The key is covered by the record's checksum, so a record under a foreign key does not
// decode.
Status decode_places(const MapKey& key, std::string_view record, MapPlaces& places);
// The same as a map, with checksums of 0.
Status decode_map(const MapKey& key, std::string_view record, BlockMap& map, bool& wide);

// What the map's record does not say of a quarter that has mapped blocks: their checksums; also
// where they are, if the map is `wide`. `to` has room for kQuarterRecordBytesMax.
size_t encode_quarter(const MapKey& key, uint32_t quarter, const BlockMap& map, bool wide,
                      char* to);
// Errors as decode_map(). Of a map that is not wide the record must be of the blocks that it has.
Status decode_quarter(const MapKey& key, uint32_t quarter, std::string_view record, bool wide,
                      BlockMap& map);

}  // namespace penstock::store
