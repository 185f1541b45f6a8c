// Block maps as formats 1 to 3 wrote them, for the conversion of old targets
// (docs/formats/store.md): each has 64 blocks, and its record says all of them. Keys of formats 1
// and 2 say nothing of chains.
#pragma once

#include "block_map.h"

#include <span>
#include <string>

namespace penstock::store {

inline constexpr uint32_t kOldMapBlocks = 64;
inline constexpr uint64_t kOldMapBytes = kOldMapBlocks * limits::kBlockBytes;
// So many of them are one map of today.
inline constexpr uint32_t kOldMaps = limits::kMapBlocks / kOldMapBlocks;
inline constexpr char kOldMapKeyType = 'B';

struct OldMapKey {
  ChainId chain;
  ChunkId chunk;
  uint32_t index = 0;

  MapKey of_today() const { return {chain, chunk, index / kOldMaps}; }
};
struct OldMap {
  std::array<BlockRef, kOldMapBlocks> blocks;
  uint32_t valid_end = 0;

  bool empty() const { return valid_end == 0; }
  friend bool operator==(const OldMap&, const OldMap&) = default;
};

// As this format wrote it.
std::string encode_old_key(const OldMapKey& key, uint32_t format);
// A key of format 3, or of formats 1 and 2: then its chunk is in `chain` from now on, and `format`,
// that of the database, is one of them. A conversion that was interrupted leaves both.
std::optional<OldMapKey> decode_old_key(std::string_view key, uint32_t format, ChainId chain);

// The record of formats 2 and 3 under this key. The map is not empty.
std::string encode_old_map(std::string_view key, const OldMap& map);
// Corrupt, or wrong_version, as decode_places().
Status decode_old_map(std::string_view key, std::string_view record, OldMap& map);
// The same of format 1.
Status decode_old_map_1(std::string_view key, std::string_view record, OldMap& map);

// Puts an old map where it belongs in one of today, and takes it out again: what the old program
// would have had.
void merge(const OldMap& old, uint32_t old_index, BlockMap& map);
OldMap split(const BlockMap& map, uint32_t old_index);

}  // namespace penstock::store
