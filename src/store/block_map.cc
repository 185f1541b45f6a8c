#include "block_map.h"

#include <cstring>

namespace penstock::store {
namespace {

constexpr uint8_t kVersion = 1;
constexpr size_t kHeaderBytes = 1 + 1 + 1 + 4;
constexpr size_t kEntryBytes = 8;
constexpr size_t kChecksumBytes = 4;

template <class T>
char* put_big(char* to, T value) {
  for (int shift = (sizeof(T) - 1) * 8; shift >= 0; shift -= 8) {
    *to++ = static_cast<char>(value >> shift);
  }
  return to;
}

template <class T>
const char* get_big(const char* from, T& value) {
  value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8) | static_cast<uint8_t>(*from++);
  }
  return from;
}

// The format is little endian, as every machine that this builds for.
static_assert(std::endian::native == std::endian::little);

char* put32(char* to, uint32_t value) {
  std::memcpy(to, &value, sizeof(value));
  return to + sizeof(value);
}

uint32_t get32(const char* from) {
  uint32_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

uint32_t checksum(const MapKey& key, std::string_view content) {
  const EncodedMapKey encoded = encode_key(key);
  const uint32_t of_key = crc32c(std::as_bytes(std::span(encoded)));
  return crc32c(std::as_bytes(std::span(content)), of_key);
}

}  // namespace

uint32_t BlockMap::mapped() const {
  uint32_t count = 0;
  for (const BlockRef& block : blocks) count += block.hole() ? 0 : 1;
  return count;
}

EncodedMapKey encode_key(const MapKey& key) {
  EncodedMapKey encoded;
  encoded[0] = kMapKeyType;
  char* to = put_big(encoded.data() + 1, key.chunk.inode.value);
  to = put_big(to, key.chunk.index);
  put_big(to, static_cast<uint16_t>(key.index));
  return encoded;
}

EncodedMapKey encode_key_after(InodeId inode) {
  EncodedMapKey encoded = encode_key({{InodeId(inode.value + 1), 0}, 0});
  // After the last inode comes the next type of key.
  if (inode.value == UINT64_MAX) encoded[0] = kMapKeyType + 1;
  return encoded;
}

std::optional<MapKey> decode_key(std::string_view key) {
  if (key.size() != kMapKeyBytes || key[0] != kMapKeyType) return std::nullopt;
  MapKey decoded;
  uint16_t index = 0;
  const char* from = get_big(key.data() + 1, decoded.chunk.inode.value);
  from = get_big(from, decoded.chunk.index);
  get_big(from, index);
  decoded.index = index;
  if (decoded.index >= limits::kChunkMapsMax) return std::nullopt;
  return decoded;
}

size_t encode_map(const MapKey& key, const BlockMap& map, char* to) {
  ASSERT(!map.empty());
  uint32_t count = limits::kMapBlocks;
  while (count > 0 && map.blocks[count - 1].hole()) --count;
  char* const begin = to;
  *to++ = static_cast<char>(kVersion);
  *to++ = 0;  // flags
  *to++ = static_cast<char>(count);
  to = put32(to, map.valid_end);
  std::memcpy(to, map.blocks.data(), count * kEntryBytes);
  to += count * kEntryBytes;
  const auto length = static_cast<size_t>(to - begin);
  put32(to, checksum(key, {begin, length}));
  return length + kChecksumBytes;
}

static_assert(sizeof(BlockRef) == kEntryBytes && offsetof(BlockRef, crc) == 4);
static_assert(std::is_trivially_copyable_v<BlockRef>);
static_assert(kMapRecordBytesMax ==
              kHeaderBytes + limits::kMapBlocks * kEntryBytes + kChecksumBytes);

Status decode_map(const MapKey& key, std::string_view record, BlockMap& map) {
  map.reset();
  if (record.size() < kHeaderBytes + kChecksumBytes) return Code::corrupt;
  const std::string_view content = record.substr(0, record.size() - kChecksumBytes);
  if (get32(record.data() + content.size()) != checksum(key, content)) return Code::corrupt;
  if (static_cast<uint8_t>(record[0]) != kVersion) return Code::wrong_version;
  const auto count = static_cast<uint8_t>(record[2]);
  if (record[1] != 0 || count > limits::kMapBlocks) return Code::corrupt;
  if (content.size() != kHeaderBytes + count * kEntryBytes) return Code::corrupt;
  const uint32_t valid_end = get32(record.data() + 3);
  if (valid_end == 0 || valid_end > limits::kMapBytes) return Code::corrupt;
  if (count > 0 && (count - 1) * limits::kBlockBytes >= valid_end) return Code::corrupt;
  BlockMap decoded;
  decoded.valid_end = valid_end;
  std::memcpy(decoded.blocks.data(), record.data() + kHeaderBytes, count * kEntryBytes);
  for (uint32_t i = 0; i < count; ++i) {
    if (decoded.blocks[i].hole() && decoded.blocks[i].crc != 0) return Code::corrupt;
  }
  if (count > 0 && decoded.blocks[count - 1].hole()) return Code::corrupt;
  map = decoded;
  return Code::ok;
}

}  // namespace penstock::store
