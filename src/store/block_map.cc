#include "block_map.h"

#include <cstring>

namespace penstock::store {
namespace {

constexpr uint8_t kVersion = 3;
constexpr uint8_t kQuarterVersion = 1;
constexpr size_t kChecksumBytes = 4;

// The record of a map before its runs. What is fixed has one value today; others belong to later
// versions and are refused here.
struct MapHeader {
  uint8_t version = kVersion;
  uint8_t state = 0;  // committed; 1: pending, the other copies have not confirmed it
  uint8_t wide = 0;   // 1: the quarters say where blocks are
  uint8_t runs = 0;
  uint32_t valid_end = 0;
};
static_assert(sizeof(MapHeader) == 8 && offsetof(MapHeader, valid_end) == 4 &&
              std::is_trivially_copyable_v<MapHeader>);
static_assert(kMapRecordBytesMax ==
              sizeof(MapHeader) + limits::kMapRunsNear * sizeof(uint64_t) + kChecksumBytes);

// A run in a word: the place in 40 bits, the first block in 8, what follows it in 8.
constexpr uint32_t kFirstShift = limits::kBlockNumberBits;
constexpr uint32_t kMoreShift = kFirstShift + 8;
static_assert(kMoreShift + 8 <= 64 && limits::kMapBlocks <= 256);

uint64_t pack(const MapRun& run) {
  return run.place | uint64_t{run.first} << kFirstShift | uint64_t{run.count - 1} << kMoreShift;
}

MapRun unpack(uint64_t word) {
  return {static_cast<uint32_t>(word >> kFirstShift & 0xff),
          static_cast<uint32_t>(word >> kMoreShift & 0xff) + 1, word & kHole};
}

// The record of a quarter before its blocks.
struct QuarterHeader {
  uint8_t version = kQuarterVersion;
  uint8_t wide = 0;           // each block has its place before its checksum
  uint8_t checksum_kind = 1;  // CRC-32C
  uint8_t codec = 0;          // blocks are stored as they are
  uint32_t key_id = 0;        // not encrypted
  uint64_t mapped = 0;        // a bit for each block
};
static_assert(sizeof(QuarterHeader) == 16 && offsetof(QuarterHeader, mapped) == 8 &&
              std::is_trivially_copyable_v<QuarterHeader>);
constexpr size_t kPlaceBytes = limits::kBlockNumberBits / 8;
static_assert(kQuarterRecordBytesMax ==
              sizeof(QuarterHeader) + limits::kQuarterBlocks * (kPlaceBytes + sizeof(uint32_t)) +
                  kChecksumBytes);

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

// What of a record lies before its checksum, if that is right.
std::optional<std::string_view> content_of(std::string_view key, std::string_view record) {
  if (record.size() <= kChecksumBytes) return std::nullopt;
  const std::string_view content = record.substr(0, record.size() - kChecksumBytes);
  if (get<uint32_t>(record.data() + content.size()) != map_checksum(key, content)) {
    return std::nullopt;
  }
  return content;
}

// Whether the updater can have made it: blocks that begin before the end.
bool within_end(uint32_t last_block, uint32_t valid_end) {
  return last_block * limits::kBlockBytes < valid_end;
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

uint64_t BlockMap::mapped_of(uint32_t quarter) const {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < limits::kQuarterBlocks; ++i) {
    const bool is_mapped = !blocks[quarter * limits::kQuarterBlocks + i].hole();
    bits |= uint64_t{is_mapped ? 1u : 0u} << i;
  }
  return bits;
}

uint32_t count_runs(const BlockMap& map) {
  uint32_t runs = 0;
  for_each_run(map, [&runs](const MapRun&) { ++runs; });
  return runs;
}

namespace {

EncodedMapKey encode_indexed_key(char type, const ChainId& chain, const ChunkId& chunk,
                                 uint32_t index) {
  EncodedMapKey encoded;
  encoded[0] = type;
  char* to = put_big(encoded.data() + 1, chain.value);
  to = put_big(to, chunk.inode.value);
  to = put_big(to, chunk.index);
  put_big(to, static_cast<uint16_t>(index));
  return encoded;
}

std::optional<MapKey> decode_indexed_key(char type, std::string_view key) {
  if (key.size() != kMapKeyBytes || key[0] != type) return std::nullopt;
  MapKey decoded;
  uint16_t index = 0;
  const char* from = get_big(key.data() + 1, decoded.chain.value);
  from = get_big(from, decoded.chunk.inode.value);
  from = get_big(from, decoded.chunk.index);
  get_big(from, index);
  decoded.index = index;
  return decoded;
}

}  // namespace

EncodedMapKey encode_key(const MapKey& key) {
  return encode_indexed_key(kMapKeyType, key.chain, key.chunk, key.index);
}

EncodedMapKey encode_quarter_key(const MapKey& key, uint32_t quarter) {
  return encode_indexed_key(kQuarterKeyType, key.chain, key.chunk,
                            key.index * limits::kMapQuarters + quarter);
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
  auto decoded = decode_indexed_key(kMapKeyType, key);
  if (decoded && decoded->index >= limits::kChunkMapsMax) return std::nullopt;
  return decoded;
}

std::optional<QuarterKey> decode_quarter_key(std::string_view key) {
  const auto decoded = decode_indexed_key(kQuarterKeyType, key);
  if (!decoded || decoded->index >= limits::kChunkMapsMax * limits::kMapQuarters) {
    return std::nullopt;
  }
  return QuarterKey{{decoded->chain, decoded->chunk, decoded->index / limits::kMapQuarters},
                    decoded->index % limits::kMapQuarters};
}

size_t encode_map(const MapKey& key, const BlockMap& map, char* to) {
  ASSERT(!map.empty() && key.index < limits::kChunkMapsMax);
  ASSERT(map.valid_end <= limits::kMapBytes);
  MapHeader header;
  header.valid_end = map.valid_end;
  uint32_t runs = 0;
  char* const begin = to;
  to += sizeof(header);
  for_each_run(map, [&](const MapRun& run) {
    // What decode_map() demands.
    ASSERT(within_end(run.first + run.count - 1, map.valid_end));
    ASSERT(run.place + run.count <= limits::kTargetBlocksMax);
    if (++runs <= limits::kMapRunsNear) to = put(to, pack(run));
  });
  header.wide = runs > limits::kMapRunsNear ? 1 : 0;
  header.runs = header.wide != 0 ? 0 : static_cast<uint8_t>(runs);
  if (header.wide != 0) to = begin + sizeof(header);
  put(begin, header);
  const auto length = static_cast<size_t>(to - begin);
  ASSERT(length + kChecksumBytes <= kMapRecordBytesMax);
  put(to, map_checksum(as_view(encode_key(key)), {begin, length}));
  return length + kChecksumBytes;
}

Status decode_places(const MapKey& key, std::string_view record, MapPlaces& places) {
  const auto content = content_of(as_view(encode_key(key)), record);
  if (!content) return Code::corrupt;
  if (static_cast<uint8_t>(record[0]) != kVersion) return Code::wrong_version;
  if (content->size() < sizeof(MapHeader)) return Code::corrupt;
  const auto header = get<MapHeader>(record.data());
  if (header.state != 0 || header.wide > 1) return Code::wrong_version;
  if (content->size() != sizeof(header) + header.runs * sizeof(uint64_t)) return Code::corrupt;
  if (header.runs > (header.wide != 0 ? 0 : limits::kMapRunsNear)) return Code::corrupt;
  if (header.valid_end == 0 || header.valid_end > limits::kMapBytes) return Code::corrupt;
  uint32_t next = 0;              // the least block of the next run
  BlockNumber continued = kHole;  // what would have been the same run
  for (uint32_t i = 0; i < header.runs; ++i) {
    const auto word = get<uint64_t>(record.data() + sizeof(header) + i * sizeof(uint64_t));
    const MapRun run = unpack(word);
    if (word >> (kMoreShift + 8) != 0 || run.place + run.count > limits::kTargetBlocksMax) {
      return Code::wrong_version;
    }
    const uint32_t end = run.first + run.count;
    const bool joined = run.first == next && run.place == continued;
    if (run.first < next || joined || end > limits::kMapBlocks) return Code::corrupt;
    if (!within_end(end - 1, header.valid_end)) return Code::corrupt;
    places.runs[i] = run;
    next = end;
    continued = run.place + run.count;
  }
  places.valid_end = header.valid_end;
  places.wide = header.wide != 0;
  places.count = header.runs;
  return Code::ok;
}

Status decode_map(const MapKey& key, std::string_view record, BlockMap& map, bool& wide) {
  map.reset();
  MapPlaces places;
  TRY(decode_places(key, record, places));
  map.valid_end = places.valid_end;
  wide = places.wide;
  for (uint32_t i = 0; i < places.count; ++i) {
    const MapRun& run = places.runs[i];
    for (uint32_t b = 0; b < run.count; ++b) map.blocks[run.first + b] = {run.place + b, 0};
  }
  return Code::ok;
}

size_t encode_quarter(const MapKey& key, uint32_t quarter, const BlockMap& map, bool wide,
                      char* to) {
  ASSERT(quarter < limits::kMapQuarters);
  QuarterHeader header;
  header.wide = wide ? 1 : 0;
  header.mapped = map.mapped_of(quarter);
  ASSERT(header.mapped != 0);
  char* const begin = to;
  to = put(to, header);
  for (uint64_t left = header.mapped; left != 0; left &= left - 1) {
    const auto i = static_cast<uint32_t>(std::countr_zero(left));
    const BlockRef& block = map.blocks[quarter * limits::kQuarterBlocks + i];
    const uint64_t place = block.physical;
    if (wide) {
      std::memcpy(to, &place, kPlaceBytes);
      to += kPlaceBytes;
    }
    to = put(to, uint32_t{block.crc});
  }
  const auto length = static_cast<size_t>(to - begin);
  ASSERT(length + kChecksumBytes <= kQuarterRecordBytesMax);
  put(to, map_checksum(as_view(encode_quarter_key(key, quarter)), {begin, length}));
  return length + kChecksumBytes;
}

Status decode_quarter(const MapKey& key, uint32_t quarter, std::string_view record, bool wide,
                      BlockMap& map) {
  ASSERT(quarter < limits::kMapQuarters);
  const auto content = content_of(as_view(encode_quarter_key(key, quarter)), record);
  if (!content) return Code::corrupt;
  if (static_cast<uint8_t>(record[0]) != kQuarterVersion) return Code::wrong_version;
  if (content->size() < sizeof(QuarterHeader)) return Code::corrupt;
  const auto header = get<QuarterHeader>(record.data());
  const QuarterHeader known;
  if (header.wide > 1 || header.checksum_kind != known.checksum_kind ||
      header.codec != known.codec || header.key_id != known.key_id) {
    return Code::wrong_version;
  }
  // One transaction wrote the map's record and this one.
  if ((header.wide != 0) != wide || header.mapped == 0) return Code::corrupt;
  const auto mapped = static_cast<size_t>(std::popcount(header.mapped));
  const size_t each = sizeof(uint32_t) + (wide ? kPlaceBytes : 0);
  if (content->size() != sizeof(header) + mapped * each) return Code::corrupt;
  if (!wide && header.mapped != map.mapped_of(quarter)) return Code::corrupt;
  const uint32_t begin = quarter * limits::kQuarterBlocks;
  const auto last = begin + static_cast<uint32_t>(63 - std::countl_zero(header.mapped));
  if (!within_end(last, map.valid_end)) return Code::corrupt;
  const char* from = record.data() + sizeof(header);
  for (uint64_t left = header.mapped; left != 0; left &= left - 1) {
    BlockRef& block = map.blocks[begin + static_cast<uint32_t>(std::countr_zero(left))];
    if (wide) {
      uint64_t place = 0;
      std::memcpy(&place, from, kPlaceBytes);
      if (place >= limits::kTargetBlocksMax) return Code::wrong_version;
      block.physical = place;
      from += kPlaceBytes;
    }
    block.crc = get<uint32_t>(from);
    from += sizeof(uint32_t);
  }
  return Code::ok;
}

}  // namespace penstock::store
