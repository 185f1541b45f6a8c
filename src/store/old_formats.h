// Block maps as formats 1 and 2 wrote them, for the conversion of old targets
// (docs/formats/store.md). Their keys say nothing of chains.
#pragma once

#include "block_map.h"

#include <string>

namespace penstock::store {

inline constexpr size_t kOldMapKeyBytes = 1 + 8 + 4 + 2;

std::string encode_old_key(const MapKey& key);
// A key of an old format; its chunk is in `chain` from now on.
std::optional<MapKey> decode_old_key(std::string_view key, ChainId chain);
// As decode_map(), of a record of format 1 under this key, which is of the old form. Records of
// format 2 differ from today's in nothing but their keys.
Status decode_map_1(std::string_view key, std::string_view record, BlockMap& map);

}  // namespace penstock::store
