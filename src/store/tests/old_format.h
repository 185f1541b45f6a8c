// Records as format 1 wrote them, for tests of the conversion.
#pragma once

#include "block_map.h"

#include <string>

namespace penstock::store {

inline std::string encode_map_1(const MapKey& key, const BlockMap& map) {
  uint32_t count = limits::kMapBlocks;
  while (count > 0 && map.blocks[count - 1].hole()) --count;
  std::string record{1, 0, static_cast<char>(count)};
  record.append(reinterpret_cast<const char*>(&map.valid_end), 4);
  for (uint32_t i = 0; i < count; ++i) {
    record.append(reinterpret_cast<const char*>(&map.blocks[i].physical), 4);
    record.append(reinterpret_cast<const char*>(&map.blocks[i].crc), 4);
  }
  const uint32_t crc = map_checksum(key, record);
  return record.append(reinterpret_cast<const char*>(&crc), 4);
}

}  // namespace penstock::store
