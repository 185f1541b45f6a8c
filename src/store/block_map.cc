#include "block_map.h"

#include <cstring>

namespace penstock::store {
namespace {

constexpr uint8_t kVersion = 2;
constexpr uint64_t kPhysicalOfHole = UINT64_MAX;

// The record before its entries. What is fixed has one value today; other values belong to versions
// that copy chunks to other nodes, compress or encrypt, and are refused here.
struct Header {
  uint8_t version = kVersion;
  uint8_t state = 0;           // committed; 1: pending, the other copies have not confirmed it
  uint8_t checksum_kind = 1;   // CRC-32C
  uint8_t codec = 0;           // blocks are stored as they are
  uint32_t key_id = 0;         // not encrypted
  uint64_t chunk_version = 0;  // not counted
  uint32_t valid_end = 0;
  uint8_t count = 0;
  std::array<uint8_t, 3> reserved{};
};
static_assert(sizeof(Header) == 24 && offsetof(Header, key_id) == 4 &&
              offsetof(Header, chunk_version) == 8 && offsetof(Header, valid_end) == 16 &&
              offsetof(Header, count) == 20 && std::is_trivially_copyable_v<Header>);

constexpr size_t kPhysicalBytes = 8;
constexpr size_t kEntryBytes = kPhysicalBytes + 4;
constexpr size_t kChecksumBytes = 4;
static_assert(kMapRecordBytesMax ==
              sizeof(Header) + limits::kMapBlocks * kEntryBytes + kChecksumBytes);

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

template <class T>
char* put(char* to, const T& value) {
  std::memcpy(to, &value, sizeof(value));
  return to + sizeof(value);
}

template <class T>
T get(const char* from) {
  T value{};
  std::memcpy(&value, from, sizeof(value));
  return value;
}

Status decode_entry(const char* from, BlockRef& block) {
  const auto physical = get<uint64_t>(from);
  const auto crc = get<uint32_t>(from + kPhysicalBytes);
  if (physical == kPhysicalOfHole) return crc == 0 ? Code::ok : Code::corrupt;
  if (physical >= kHole) return Code::wrong_version;
  block = {static_cast<uint32_t>(physical), crc};
  return Code::ok;
}

}  // namespace

uint32_t map_checksum(std::string_view key, std::string_view content) {
  const uint32_t of_key = crc32c(std::as_bytes(std::span(key)));
  return crc32c(std::as_bytes(std::span(content)), of_key);
}

uint32_t BlockMap::mapped() const {
  uint32_t count = 0;
  for (const BlockRef& block : blocks) count += block.hole() ? 0 : 1;
  return count;
}

EncodedMapKey encode_key(const MapKey& key) {
  EncodedMapKey encoded;
  encoded[0] = kMapKeyType;
  char* to = put_big(encoded.data() + 1, key.chain.value);
  to = put_big(to, key.chunk.inode.value);
  to = put_big(to, key.chunk.index);
  put_big(to, static_cast<uint16_t>(key.index));
  return encoded;
}

EncodedMapKey encode_key_after(ChainId chain, InodeId inode) {
  const InodeId next(inode.value + 1);
  // After the last inode comes the next chain, and after the last chain the next type of key.
  const ChainId in(chain.value + (next == InodeId{} ? 1 : 0));
  EncodedMapKey encoded = encode_key({in, {next, 0}, 0});
  if (next == InodeId{} && in == ChainId{}) encoded[0] = kMapKeyType + 1;
  return encoded;
}

std::optional<MapKey> decode_key(std::string_view key) {
  if (key.size() != kMapKeyBytes || key[0] != kMapKeyType) return std::nullopt;
  MapKey decoded;
  uint16_t index = 0;
  const char* from = get_big(key.data() + 1, decoded.chain.value);
  from = get_big(from, decoded.chunk.inode.value);
  from = get_big(from, decoded.chunk.index);
  get_big(from, index);
  decoded.index = index;
  if (decoded.index >= limits::kChunkMapsMax) return std::nullopt;
  return decoded;
}

size_t encode_map(std::string_view key, const BlockMap& map, char* to) {
  ASSERT(!map.empty());
  uint32_t count = limits::kMapBlocks;
  while (count > 0 && map.blocks[count - 1].hole()) --count;
  // What decode_map() demands.
  ASSERT(map.valid_end <= limits::kMapBytes);
  ASSERT(count == 0 || (count - 1) * limits::kBlockBytes < map.valid_end);
  Header header;
  header.valid_end = map.valid_end;
  header.count = static_cast<uint8_t>(count);
  char* const begin = to;
  to = put(to, header);
  for (uint32_t i = 0; i < count; ++i) {
    const BlockRef& block = map.blocks[i];
    to = put(to, block.hole() ? kPhysicalOfHole : uint64_t{block.physical});
    to = put(to, block.crc);
  }
  const auto length = static_cast<size_t>(to - begin);
  ASSERT(length + kChecksumBytes <= kMapRecordBytesMax);
  put(to, map_checksum(key, {begin, length}));
  return length + kChecksumBytes;
}

Status decode_map(std::string_view key, std::string_view record, BlockMap& map) {
  map.reset();
  if (record.size() < kChecksumBytes + 1) return Code::corrupt;
  const std::string_view content = record.substr(0, record.size() - kChecksumBytes);
  if (get<uint32_t>(record.data() + content.size()) != map_checksum(key, content)) {
    return Code::corrupt;
  }
  if (static_cast<uint8_t>(record[0]) != kVersion) return Code::wrong_version;
  if (content.size() < sizeof(Header)) return Code::corrupt;
  const auto header = get<Header>(record.data());
  const Header known;
  if (header.state != known.state || header.checksum_kind != known.checksum_kind ||
      header.codec != known.codec || header.key_id != known.key_id ||
      header.chunk_version != known.chunk_version || header.reserved != known.reserved) {
    return Code::wrong_version;
  }
  const uint32_t count = header.count;
  if (count > limits::kMapBlocks) return Code::corrupt;
  if (content.size() != sizeof(Header) + count * kEntryBytes) return Code::corrupt;
  if (header.valid_end == 0 || header.valid_end > limits::kMapBytes) return Code::corrupt;
  if (count > 0 && (count - 1) * limits::kBlockBytes >= header.valid_end) return Code::corrupt;
  BlockMap decoded;
  decoded.valid_end = header.valid_end;
  const char* entry = record.data() + sizeof(Header);
  for (uint32_t i = 0; i < count; ++i, entry += kEntryBytes) {
    TRY(decode_entry(entry, decoded.blocks[i]));
  }
  if (count > 0 && decoded.blocks[count - 1].hole()) return Code::corrupt;
  map = decoded;
  return Code::ok;
}

}  // namespace penstock::store
