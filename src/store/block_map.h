// Block maps and their form in the KV store (docs/formats/store.md).
#pragma once

#include "limits.h"

#include <array>
#include <optional>
#include <string_view>

#include "penstock/base.h"

namespace penstock::store {

inline constexpr uint32_t kHole = UINT32_MAX;

// Where a block lives in the data files, and the CRC-32C of its 4096 bytes. Records have room for
// 64-bit block numbers; in memory 32 bits are enough for the 16 TiB that a target may hold.
struct BlockRef {
  uint32_t physical = kHole;
  uint32_t crc = 0;  // 0 for a hole

  bool hole() const { return physical == kHole; }
  friend bool operator==(const BlockRef&, const BlockRef&) = default;
};

struct MapKey {
  ChainId chain;
  ChunkId chunk;
  uint32_t index = 0;  // below kChunkMapsMax

  friend constexpr auto operator<=>(const MapKey&, const MapKey&) = default;
};

// 64 consecutive blocks of a chunk. Bytes at and beyond valid_end are zeros, so no block that
// begins there is mapped.
struct BlockMap {
  std::array<BlockRef, limits::kMapBlocks> blocks;
  uint32_t valid_end = 0;  // end of the last written byte, at most kMapBytes

  void reset() { *this = BlockMap(); }
  // Nothing to remember: it has no record.
  bool empty() const { return valid_end == 0; }
  uint32_t mapped() const;
  friend bool operator==(const BlockMap&, const BlockMap&) = default;
};

inline constexpr size_t kMapKeyBytes = 1 + 4 + 8 + 4 + 2;
inline constexpr size_t kMapRecordBytesMax = 24 + limits::kMapBlocks * 12 + 4;
inline constexpr char kMapKeyType = 'B';

using EncodedMapKey = std::array<char, kMapKeyBytes>;
EncodedMapKey encode_key(const MapKey& key);
// The first key that is greater than every key of the inode in this chain.
EncodedMapKey encode_key_after(ChainId chain, InodeId inode);
std::optional<MapKey> decode_key(std::string_view key);
inline std::string_view as_view(const EncodedMapKey& key) {
  return {key.data(), key.size()};
}

// `to` has room for kMapRecordBytesMax; returns the length. The map is not empty.
size_t encode_map(std::string_view key, const BlockMap& map, char* to);
inline size_t encode_map(const MapKey& key, const BlockMap& map, char* to) {
  ASSERT(key.index < limits::kChunkMapsMax);
  return encode_map(as_view(encode_key(key)), map, to);
}
// Corrupt, or wrong_version for an intact record that uses what only other versions of this program
// know. The key is covered by the record's checksum, so a record under a foreign key does not
// decode.
Status decode_map(std::string_view key, std::string_view record, BlockMap& map);
inline Status decode_map(const MapKey& key, std::string_view record, BlockMap& map) {
  return decode_map(as_view(encode_key(key)), record, map);
}
// What ends each record, over the key and all of the record before.
uint32_t map_checksum(std::string_view key, std::string_view content);

}  // namespace penstock::store
