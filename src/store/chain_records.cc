#include "chain_records.h"

#include <cstring>

namespace penstock::store {
namespace {

constexpr uint8_t kChainRecordVersion = 1;

struct ChunkHeader {
  uint8_t version = kChainRecordVersion;
  uint8_t removed = 0;
  std::array<uint8_t, 2> reserved{};
  uint32_t length = 0;
  UpdateName name;
};
static_assert(sizeof(ChunkHeader) == 48 && std::has_unique_object_representations_v<ChunkHeader>);

struct PendingHeader {
  uint8_t version = kChainRecordVersion;
  std::array<uint8_t, 7> reserved{};
  uint32_t parts = 0;
  uint32_t blocks = 0;
  UpdateName name;
};
static_assert(sizeof(PendingHeader) == 56 &&
              std::has_unique_object_representations_v<PendingHeader>);

struct StoredBlock {
  uint32_t block = 0;
  uint32_t crc = 0;
  uint64_t place = 0;
};
static_assert(sizeof(StoredBlock) == 16 && std::has_unique_object_representations_v<StoredBlock>);

struct SlotContent {
  uint8_t version = kChainRecordVersion;
  std::array<uint8_t, 3> reserved{};
  uint32_t chunk = 0;
  uint64_t inode = 0;
  RequestId request;
  UpdateName name;
};
static_assert(sizeof(SlotContent) == 80 && std::has_unique_object_representations_v<SlotContent>);

constexpr size_t kChunkKeyBytes = 1 + 4 + 8 + 4;
constexpr size_t kSlotKeyBytes = 1 + 4 + 4 + 4;

template <class T>
void append_big(std::string& to, T value) {
  for (int shift = (sizeof(T) - 1) * 8; shift >= 0; shift -= 8) {
    to.push_back(static_cast<char>(value >> shift));
  }
}

template <class T>
T take_big(std::string_view& from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8 | static_cast<uint8_t>(from[i]));
  }
  from.remove_prefix(sizeof(T));
  return value;
}

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class T>
T take_struct(std::string_view& from) {
  T value;
  std::memcpy(&value, from.data(), sizeof(T));
  from.remove_prefix(sizeof(T));
  return value;
}

void seal(std::string_view key, std::string& record) {
  append(record, map_checksum(key, record));
}

// Takes the checksum off the record's end, if it is right and something of `least` bytes is before
// it.
Status unseal(std::string_view key, std::string_view& record, size_t least) {
  if (record.size() < sizeof(uint32_t) + 1) return Code::corrupt;
  std::string_view crc = record.substr(record.size() - sizeof(uint32_t));
  record.remove_suffix(sizeof(uint32_t));
  if (take_struct<uint32_t>(crc) != map_checksum(key, record)) return Code::corrupt;
  if (static_cast<uint8_t>(record[0]) != kChainRecordVersion) return Code::wrong_version;
  return record.size() < least ? Code::corrupt : Code::ok;
}

}  // namespace

bool is_good(const UpdatePart& part) {
  for (const uint8_t byte : part.reserved) {
    if (byte != 0) return false;
  }
  switch (part.kind) {
    case UpdateKind::write:
      return part.begin < part.end && part.end <= limits::kChunkBytesMax;
    case UpdateKind::clear:
      if (part.begin > limits::kChunkBytesMax) return false;
      return part.end == kWholeChunk ||
             (part.begin <= part.end && part.end <= limits::kChunkBytesMax);
    case UpdateKind::remove:
    case UpdateKind::drop:
      return true;
  }
  return false;
}

std::string encode_chunk_key(char type, const ChainChunk& at) {
  std::string key(1, type);
  append_big(key, at.chain.value);
  append_big(key, at.chunk.inode.value);
  append_big(key, at.chunk.index);
  return key;
}

std::optional<ChainChunk> decode_chunk_key(char type, std::string_view key) {
  if (key.size() != kChunkKeyBytes || key[0] != type) return std::nullopt;
  key.remove_prefix(1);
  ChainChunk at;
  at.chain.value = take_big<uint32_t>(key);
  at.chunk.inode.value = take_big<uint64_t>(key);
  at.chunk.index = take_big<uint32_t>(key);
  return at;
}

std::string encode_slot_key(ChainId chain, uint32_t node, uint32_t slot) {
  std::string key(1, kSlotKeyType);
  append_big(key, chain.value);
  append_big(key, node);
  append_big(key, slot);
  return key;
}

std::string encode_chunk_record(std::string_view key, const ChunkState& state) {
  // What decode_chunk_record() demands.
  ASSERT(state.length <= limits::kChunkBytesMax && (!state.removed || state.length == 0));
  ChunkHeader header;
  header.removed = state.removed ? 1 : 0;
  header.length = state.length;
  header.name = state.committed;
  std::string record;
  append(record, header);
  seal(key, record);
  return record;
}

Status decode_chunk_record(std::string_view key, std::string_view record, ChunkState& state) {
  TRY(unseal(key, record, sizeof(ChunkHeader)));
  if (record.size() != sizeof(ChunkHeader)) return Code::corrupt;
  const auto header = take_struct<ChunkHeader>(record);
  if (header.removed > 1 || header.reserved != decltype(header.reserved){}) {
    return Code::wrong_version;
  }
  if (header.length > limits::kChunkBytesMax) return Code::corrupt;
  if (header.removed == 1 && header.length != 0) return Code::corrupt;
  state = {header.name, header.removed == 1, header.length};
  return Code::ok;
}

size_t pending_bytes(const PendingRecord& pending, size_t blocks) {
  return sizeof(PendingHeader) + pending.parts.size() * sizeof(UpdatePart) +
         blocks * sizeof(StoredBlock) + sizeof(uint32_t);
}

std::string encode_pending(std::string_view key, const PendingRecord& pending) {
  ASSERT(!pending.parts.empty() && pending.parts.size() <= limits::kUpdateParts);
  ASSERT(pending.blocks.size() <= limits::kChunkBlocksMax);
  PendingHeader header;
  header.parts = static_cast<uint32_t>(pending.parts.size());
  header.blocks = static_cast<uint32_t>(pending.blocks.size());
  header.name = pending.name;
  std::string record;
  record.reserve(sizeof(header) + pending.parts.size() * sizeof(UpdatePart) +
                 pending.blocks.size() * sizeof(StoredBlock) + sizeof(uint32_t));
  append(record, header);
  for (const UpdatePart& part : pending.parts) append(record, part);
  for (const PendingBlock& one : pending.blocks) {
    ASSERT(!one.ref.hole() && one.block < limits::kChunkBlocksMax);
    append(record, StoredBlock{one.block, one.ref.crc, one.ref.physical});
  }
  seal(key, record);
  return record;
}

Status decode_pending(std::string_view key, std::string_view record, PendingRecord& pending) {
  TRY(unseal(key, record, sizeof(PendingHeader)));
  const auto header = take_struct<PendingHeader>(record);
  if (header.reserved != decltype(header.reserved){}) return Code::wrong_version;
  if (header.parts == 0 || header.parts > limits::kUpdateParts) return Code::corrupt;
  if (header.blocks > limits::kChunkBlocksMax) return Code::corrupt;
  if (record.size() != header.parts * sizeof(UpdatePart) + header.blocks * sizeof(StoredBlock)) {
    return Code::corrupt;
  }
  PendingRecord decoded;
  decoded.name = header.name;
  for (uint32_t i = 0; i < header.parts; ++i) {
    decoded.parts.push_back(take_struct<UpdatePart>(record));
    if (!is_good(decoded.parts.back())) return Code::wrong_version;
  }
  for (uint32_t i = 0; i < header.blocks; ++i) {
    const auto stored = take_struct<StoredBlock>(record);
    if (stored.block >= limits::kChunkBlocksMax) return Code::corrupt;
    if (i > 0 && stored.block <= decoded.blocks.back().block) return Code::corrupt;
    if (stored.place >= limits::kTargetBlocksMax) return Code::wrong_version;
    decoded.blocks.push_back({stored.block, {stored.place, stored.crc}});
  }
  pending = std::move(decoded);
  return Code::ok;
}

std::string encode_slot(std::string_view key, const SlotRecord& slot) {
  SlotContent content;
  content.chunk = slot.at.chunk.index;
  content.inode = slot.at.chunk.inode.value;
  content.request = slot.request;
  content.name = slot.name;
  std::string record;
  append(record, content);
  seal(key, record);
  return record;
}

Status decode_slot(std::string_view key, std::string_view record, SlotRecord& slot) {
  TRY(unseal(key, record, sizeof(SlotContent)));
  if (record.size() != sizeof(SlotContent)) return Code::corrupt;
  if (key.size() != kSlotKeyBytes || key[0] != kSlotKeyType) return Code::corrupt;
  const auto content = take_struct<SlotContent>(record);
  if (content.reserved != decltype(content.reserved){}) return Code::wrong_version;
  key.remove_prefix(1);
  const ChainId chain(take_big<uint32_t>(key));
  if (content.request.node != take_big<uint32_t>(key)) return Code::corrupt;
  if (content.request.slot != take_big<uint32_t>(key)) return Code::corrupt;
  slot = {content.request, {chain, {InodeId(content.inode), content.chunk}}, content.name};
  return Code::ok;
}

}  // namespace penstock::store
