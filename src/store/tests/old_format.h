// Records as old formats wrote them, for tests of the conversion.
#pragma once

#include "log_record.h"
#include "old_formats.h"

#include <cstring>
#include <string>

namespace penstock::store {

inline std::string encode_old_map_1(std::string_view key, const OldMap& map) {
  uint32_t count = kOldMapBlocks;
  while (count > 0 && map.blocks[count - 1].hole()) --count;
  std::string record{1, 0, static_cast<char>(count)};
  record.append(reinterpret_cast<const char*>(&map.valid_end), 4);
  for (uint32_t i = 0; i < count; ++i) {
    // The low half of the number of a hole is what format 1 has for one.
    const auto place = static_cast<uint32_t>(map.blocks[i].physical);
    const uint32_t crc = map.blocks[i].crc;
    record.append(reinterpret_cast<const char*>(&place), 4);
    record.append(reinterpret_cast<const char*>(&crc), 4);
  }
  const uint32_t crc = map_checksum(key, record);
  return record.append(reinterpret_cast<const char*>(&crc), 4);
}

// The first record of a log of format 2: one block of a chunk. `to` is zeros.
inline void encode_log_record_2(const LogIdentity& identity, ChunkId chunk, uint32_t block,
                                const BlockRef& place, Bytes bytes, std::span<std::byte> to) {
  const auto put = [&](size_t at, const auto& value) {
    std::memcpy(to.data() + at, &value, sizeof(value));
  };
  std::memcpy(to.data(), "PSTKLOG1", 8);
  std::memcpy(to.data() + 8, identity.uuid.data(), identity.uuid.size());
  constexpr uint32_t kLength = 64 + 24 + 12;
  put(24, identity.epoch);
  put(32, identity.number);
  put(40, kLength);
  put(44, uint32_t{1});
  put(64, chunk.inode.value);
  put(72, chunk.index);
  put(76, block);
  put(80, static_cast<uint32_t>((block + 1) * limits::kBlockBytes));
  put(84, uint32_t{1});
  put(88, uint64_t{place.physical});
  put(96, uint32_t{place.crc});
  put(48, crc32c({to.data(), kLength}));
  std::memcpy(to.data() + limits::kBlockBytes, bytes.data(), bytes.size());
}

}  // namespace penstock::store
