#include "old_formats.h"

#include <algorithm>
#include <cstring>

namespace penstock::store {
namespace {

constexpr uint8_t kVersion1 = 1;
constexpr size_t kHeader1Bytes = 1 + 1 + 1 + 4;
constexpr size_t kEntry1Bytes = 8;
constexpr uint32_t kHole1 = UINT32_MAX;

constexpr uint8_t kVersion2 = 2;
constexpr size_t kEntry2Bytes = 12;
constexpr uint64_t kHole2 = UINT64_MAX;

constexpr size_t kChecksumBytes = 4;
constexpr size_t kChainBytes = sizeof(uint32_t);
constexpr uint32_t kIndexMax = limits::kChunkMapsMax * kOldMaps;

// Of a record of formats 2 and 3. What is fixed had one value.
struct Header {
  uint8_t version = kVersion2;
  uint8_t state = 0;
  uint8_t checksum_kind = 1;
  uint8_t codec = 0;
  uint32_t key_id = 0;
  uint64_t chunk_version = 0;
  uint32_t valid_end = 0;
  uint8_t count = 0;
  std::array<uint8_t, 3> reserved{};
};
static_assert(sizeof(Header) == 24 && offsetof(Header, key_id) == 4 &&
              offsetof(Header, chunk_version) == 8 && offsetof(Header, valid_end) == 16 &&
              offsetof(Header, count) == 20 && std::is_trivially_copyable_v<Header>);

template <class T>
T get(const char* from) {
  T value{};
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::optional<std::string_view> content_of(std::string_view key, std::string_view record) {
  if (record.size() <= kChecksumBytes) return std::nullopt;
  const std::string_view content = record.substr(0, record.size() - kChecksumBytes);
  if (get<uint32_t>(record.data() + content.size()) != map_checksum(key, content)) {
    return std::nullopt;
  }
  return content;
}

uint32_t count_of(const OldMap& map) {
  uint32_t count = kOldMapBlocks;
  while (count > 0 && map.blocks[count - 1].hole()) --count;
  return count;
}

bool plausible(const OldMap& map, uint32_t count) {
  if (map.valid_end == 0 || map.valid_end > kOldMapBytes) return false;
  if (count > 0 && (count - 1) * limits::kBlockBytes >= map.valid_end) return false;
  return count == count_of(map);
}

Status decode_entry_2(const char* from, BlockRef& block) {
  const auto place = get<uint64_t>(from);
  const auto crc = get<uint32_t>(from + sizeof(place));
  if (place == kHole2) return crc == 0 ? Code::ok : Code::corrupt;
  if (place >= limits::kTargetBlocksMax) return Code::wrong_version;
  block = {place, crc};
  return Code::ok;
}

}  // namespace

// Of the form of today's keys, but for the letter; formats 1 and 2 without the chain.
std::string encode_old_key(const OldMapKey& key, uint32_t format) {
  ASSERT(key.index < kIndexMax);
  const MapKey form{key.chain, key.chunk, key.index};
  const EncodedMapKey encoded = encode_key(form);
  std::string old(1, kOldMapKeyType);
  return old.append(as_view(encoded).substr(format < 3 ? 1 + kChainBytes : 1));
}

std::optional<OldMapKey> decode_old_key(std::string_view key, uint32_t format, ChainId chain) {
  if (key.empty() || key[0] != kOldMapKeyType) return std::nullopt;
  const bool chained = key.size() == kMapKeyBytes;
  if (!chained && (format >= 3 || key.size() != kMapKeyBytes - kChainBytes)) return std::nullopt;
  EncodedMapKey encoded = encode_quarter_key({chain, {}, 0}, 0);
  key.copy(encoded.data() + (chained ? 1 : 1 + kChainBytes), key.size() - 1, 1);
  const auto form = decode_quarter_key(as_view(encoded));
  if (!form) return std::nullopt;
  return OldMapKey{form->map.chain, form->map.chunk,
                   form->map.index * limits::kMapQuarters + form->quarter};
}

std::string encode_old_map(std::string_view key, const OldMap& map) {
  ASSERT(!map.empty() && plausible(map, count_of(map)));
  Header header;
  header.valid_end = map.valid_end;
  header.count = static_cast<uint8_t>(count_of(map));
  std::string record;
  append(record, header);
  for (uint32_t i = 0; i < header.count; ++i) {
    const BlockRef& block = map.blocks[i];
    append(record, block.hole() ? kHole2 : uint64_t{block.physical});
    append(record, uint32_t{block.crc});
  }
  append(record, map_checksum(key, record));
  return record;
}

Status decode_old_map(std::string_view key, std::string_view record, OldMap& map) {
  map = {};
  const auto content = content_of(key, record);
  if (!content) return Code::corrupt;
  if (static_cast<uint8_t>(record[0]) != kVersion2) return Code::wrong_version;
  if (content->size() < sizeof(Header)) return Code::corrupt;
  const auto header = get<Header>(record.data());
  const Header known;
  if (header.state != known.state || header.checksum_kind != known.checksum_kind ||
      header.codec != known.codec || header.key_id != known.key_id ||
      header.chunk_version != known.chunk_version || header.reserved != known.reserved) {
    return Code::wrong_version;
  }
  if (header.count > kOldMapBlocks) return Code::corrupt;
  if (content->size() != sizeof(Header) + header.count * kEntry2Bytes) return Code::corrupt;
  OldMap decoded;
  decoded.valid_end = header.valid_end;
  for (uint32_t i = 0; i < header.count; ++i) {
    TRY(decode_entry_2(record.data() + sizeof(Header) + i * kEntry2Bytes, decoded.blocks[i]));
  }
  if (!plausible(decoded, header.count)) return Code::corrupt;
  map = decoded;
  return Code::ok;
}

Status decode_old_map_1(std::string_view key, std::string_view record, OldMap& map) {
  map = {};
  const auto content = content_of(key, record);
  if (!content) return Code::corrupt;
  if (static_cast<uint8_t>(record[0]) != kVersion1) return Code::wrong_version;
  if (content->size() < kHeader1Bytes) return Code::corrupt;
  const auto count = static_cast<uint8_t>(record[2]);
  if (record[1] != 0 || count > kOldMapBlocks) return Code::corrupt;
  if (content->size() != kHeader1Bytes + count * kEntry1Bytes) return Code::corrupt;
  OldMap decoded;
  decoded.valid_end = get<uint32_t>(record.data() + 3);
  const char* entry = record.data() + kHeader1Bytes;
  for (uint32_t i = 0; i < count; ++i, entry += kEntry1Bytes) {
    const auto place = get<uint32_t>(entry);
    decoded.blocks[i] = {place == kHole1 ? kHole : place, get<uint32_t>(entry + 4)};
    if (decoded.blocks[i].hole() && decoded.blocks[i].crc != 0) return Code::corrupt;
  }
  if (!plausible(decoded, count)) return Code::corrupt;
  map = decoded;
  return Code::ok;
}

void merge(const OldMap& old, uint32_t old_index, BlockMap& map) {
  if (old.empty()) return;
  const uint32_t at = old_index % kOldMaps;
  std::copy(old.blocks.begin(), old.blocks.end(), map.blocks.begin() + at * kOldMapBlocks);
  const auto end = static_cast<uint32_t>(at * kOldMapBytes) + old.valid_end;
  map.valid_end = std::max(map.valid_end, end);
}

// Below the end all bytes of a map are valid, so those of an old map are that has blocks; one that
// has none has no record, unless the end is in it.
OldMap split(const BlockMap& map, uint32_t old_index) {
  const uint32_t at = old_index % kOldMaps;
  const auto begin = static_cast<uint32_t>(at * kOldMapBytes);
  OldMap old;
  std::copy_n(map.blocks.begin() + at * kOldMapBlocks, kOldMapBlocks, old.blocks.begin());
  if (map.valid_end <= begin) return old;
  old.valid_end = std::min(map.valid_end - begin, static_cast<uint32_t>(kOldMapBytes));
  const bool ends_here = map.valid_end <= begin + kOldMapBytes;
  if (!ends_here && count_of(old) == 0) old.valid_end = 0;
  return old;
}

static_assert(kOldMaps == limits::kMapQuarters, "keys of old maps are those of quarters");

}  // namespace penstock::store
