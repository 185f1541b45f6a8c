#include "old_formats.h"

#include <cstring>

namespace penstock::store {
namespace {

constexpr uint8_t kVersion1 = 1;
constexpr size_t kHeader1Bytes = 1 + 1 + 1 + 4;
constexpr size_t kEntry1Bytes = 8;
constexpr size_t kChecksum1Bytes = 4;

uint32_t get32(const char* from) {
  uint32_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

// A key of today without its chain.
std::string encode_old_key(const MapKey& key) {
  const EncodedMapKey encoded = encode_key(key);
  std::string old(1, encoded[0]);
  return old.append(as_view(encoded).substr(1 + sizeof(uint32_t)));
}

std::optional<MapKey> decode_old_key(std::string_view key, ChainId chain) {
  if (key.size() != kOldMapKeyBytes || key[0] != kMapKeyType) return std::nullopt;
  EncodedMapKey encoded = encode_key({chain, {}, 0});
  key.copy(encoded.data() + 1 + sizeof(uint32_t), kOldMapKeyBytes - 1, 1);
  return decode_key(as_view(encoded));
}

Status decode_map_1(std::string_view key, std::string_view record, BlockMap& map) {
  map.reset();
  if (record.size() < kHeader1Bytes + kChecksum1Bytes) return Code::corrupt;
  const std::string_view content = record.substr(0, record.size() - kChecksum1Bytes);
  if (get32(record.data() + content.size()) != map_checksum(key, content)) return Code::corrupt;
  if (static_cast<uint8_t>(record[0]) != kVersion1) return Code::wrong_version;
  const auto count = static_cast<uint8_t>(record[2]);
  if (record[1] != 0 || count > limits::kMapBlocks) return Code::corrupt;
  if (content.size() != kHeader1Bytes + count * kEntry1Bytes) return Code::corrupt;
  const uint32_t valid_end = get32(record.data() + 3);
  if (valid_end == 0 || valid_end > limits::kMapBytes) return Code::corrupt;
  if (count > 0 && (count - 1) * limits::kBlockBytes >= valid_end) return Code::corrupt;
  BlockMap decoded;
  decoded.valid_end = valid_end;
  const char* entry = record.data() + kHeader1Bytes;
  for (uint32_t i = 0; i < count; ++i, entry += kEntry1Bytes) {
    decoded.blocks[i] = {get32(entry), get32(entry + 4)};
    if (decoded.blocks[i].hole() && decoded.blocks[i].crc != 0) return Code::corrupt;
  }
  if (count > 0 && decoded.blocks[count - 1].hole()) return Code::corrupt;
  map = decoded;
  return Code::ok;
}

}  // namespace penstock::store
