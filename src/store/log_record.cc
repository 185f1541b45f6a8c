#include "log_record.h"

#include <algorithm>
#include <cstring>

namespace penstock::store {
namespace {

using limits::kBlockBytes;

using Magic = std::array<char, 8>;
constexpr Magic kMagic = {'P', 'S', 'T', 'K', 'L', 'O', 'G', '2'};
// Of format 2, whose entries do not name a chain.
constexpr Magic kMagic2 = {'P', 'S', 'T', 'K', 'L', 'O', 'G', '1'};

// The first block: this, the entries, zeros. The bytes that the entries name follow in whole
// blocks.
struct LogHeader {
  Magic magic = kMagic;
  std::array<uint8_t, 16> uuid{};
  uint64_t epoch = 0;
  uint64_t number = 0;
  uint32_t length = 0;  // of header and entries
  uint32_t count = 0;   // of entries
  uint32_t crc = 0;     // of these `length` bytes, with zeros here
  std::array<uint8_t, 12> reserved{};
};
static_assert(sizeof(LogHeader) == 64 && offsetof(LogHeader, length) == 40 &&
              offsetof(LogHeader, crc) == 48 && std::is_trivially_copyable_v<LogHeader>);

struct Entry {
  uint64_t inode = 0;
  uint32_t chunk = 0;
  uint32_t first_block = 0;
  uint32_t end = 0;
  uint32_t count = 0;
};
static_assert(sizeof(Entry) == 24 && std::is_trivially_copyable_v<Entry>);

// What comes before an Entry.
struct EntryChain {
  uint32_t chain = 0;
};
constexpr size_t kLogEntryBytes = sizeof(EntryChain) + sizeof(Entry);

struct StoredRef {
  uint32_t low = 0;
  uint32_t high = 0;
  uint32_t crc = 0;
};
static_assert(sizeof(StoredRef) == 12 && std::is_trivially_copyable_v<StoredRef>);

static_assert(sizeof(LogHeader) + kLogEntryBytes + limits::kLogBlocks * sizeof(StoredRef) <=
                  kBlockBytes,
              "the largest write that is logged fits an empty record");

struct MarkRecord {
  uint8_t version = 1;
  std::array<uint8_t, 7> reserved{};
  uint64_t epoch = 0;
  uint64_t number = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};
static_assert(sizeof(MarkRecord) == 40 && std::is_trivially_copyable_v<MarkRecord>);

template <class T>
T take(Bytes& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return value;
}

uint32_t checksum(LogHeader header, Bytes entries) {
  header.crc = 0;
  return crc32c(entries, crc32c(std::as_bytes(std::span(&header, 1))));
}

// Whether the updater can have logged this.
bool plausible(const Entry& entry) {
  if (entry.count == 0 || entry.count > limits::kLogBlocks) return false;
  if (entry.first_block >= limits::kChunkBlocksMax) return false;
  const uint64_t blocks_end = uint64_t{entry.first_block} + entry.count;
  return blocks_end <= limits::kChunkBlocksMax && entry.end > (blocks_end - 1) * kBlockBytes &&
         entry.end <= blocks_end * kBlockBytes;
}

Status take_write(Bytes& bytes, LoggedWrite& write) {
  if (bytes.size() < sizeof(Entry)) return Code::wrong_version;
  const auto entry = take<Entry>(bytes);
  if (!plausible(entry) || bytes.size() < entry.count * sizeof(StoredRef))
    return Code::wrong_version;
  write.chunk = {InodeId(entry.inode), entry.chunk};
  write.first_block = entry.first_block;
  write.end = entry.end;
  write.blocks.reserve(entry.count);
  for (uint32_t i = 0; i < entry.count; ++i) {
    const auto ref = take<StoredRef>(bytes);
    if (ref.high != 0 || ref.low == kHole) return Code::wrong_version;
    write.blocks.push_back({ref.low, ref.crc});
  }
  return Code::ok;
}

}  // namespace

std::string encode_log_mark(const LogMark& mark) {
  MarkRecord record;
  record.epoch = mark.epoch;
  record.number = mark.number;
  record.offset = mark.offset;
  record.size = mark.size;
  const uint32_t crc = crc32c(std::as_bytes(std::span(&record, 1)));
  std::string text(sizeof(record) + sizeof(crc), '\0');
  std::memcpy(text.data(), &record, sizeof(record));
  std::memcpy(text.data() + sizeof(record), &crc, sizeof(crc));
  return text;
}

Result<LogMark> decode_log_mark(std::string_view text) {
  if (text.empty()) return Code::corrupt;
  MarkRecord record;
  uint32_t crc = 0;
  if (text.size() != sizeof(record) + sizeof(crc)) {
    return text[0] == static_cast<char>(record.version) ? Code::corrupt : Code::wrong_version;
  }
  std::memcpy(&record, text.data(), sizeof(record));
  std::memcpy(&crc, text.data() + sizeof(record), sizeof(crc));
  if (crc != crc32c(std::as_bytes(std::span(&record, 1)))) return Code::corrupt;
  const bool known = record.version == 1 && record.reserved == decltype(record.reserved){};
  if (!known) return Code::wrong_version;
  const bool fits = record.size >= limits::kLogBytesMin && record.size <= limits::kLogBytesMax &&
                    record.size % kBlockBytes == 0 && record.offset % kBlockBytes == 0 &&
                    record.offset <= record.size - log_record_bytes(record.size);
  if (!fits || record.number == 0) return Code::wrong_version;
  return LogMark{record.epoch, record.number, record.offset, record.size, 0};
}

void LogRecordWriter::use(std::byte* buffer, uint32_t bytes_max) {
  buffer_ = buffer;
  bytes_max_ = bytes_max;
  clear();
}

void LogRecordWriter::clear() {
  length_ = sizeof(LogHeader);
  count_ = blocks_ = 0;
}

bool LogRecordWriter::room(uint32_t blocks) const {
  return length_ + kLogEntryBytes + blocks * sizeof(StoredRef) <= kBlockBytes &&
         (1 + blocks_ + blocks) * kBlockBytes <= bytes_max_;
}

std::byte* LogRecordWriter::add(const ChainChunk& at, uint32_t first_block, uint32_t end,
                                std::span<const BlockRef> blocks) {
  const auto count = static_cast<uint32_t>(blocks.size());
  ASSERT(count > 0 && count <= limits::kLogBlocks && room(count));
  const EntryChain chain{at.chain.value};
  std::memcpy(buffer_ + length_, &chain, sizeof(chain));
  length_ += sizeof(chain);
  const Entry entry{at.chunk.inode.value, at.chunk.index, first_block, end, count};
  std::memcpy(buffer_ + length_, &entry, sizeof(entry));
  length_ += sizeof(entry);
  for (const BlockRef& block : blocks) {
    const StoredRef ref{block.physical, 0, block.crc};
    std::memcpy(buffer_ + length_, &ref, sizeof(ref));
    length_ += sizeof(ref);
  }
  ++count_;
  std::byte* const bytes = buffer_ + (1 + blocks_) * kBlockBytes;
  blocks_ += count;
  return bytes;
}

uint32_t LogRecordWriter::seal(const LogIdentity& identity) {
  ASSERT(count_ > 0 && length_ <= kBlockBytes);
  LogHeader header;
  header.uuid = identity.uuid;
  header.epoch = identity.epoch;
  header.number = identity.number;
  header.length = length_;
  header.count = count_;
  header.crc = checksum(
      header, {buffer_ + sizeof(LogHeader), static_cast<size_t>(length_ - sizeof(LogHeader))});
  std::memcpy(buffer_, &header, sizeof(header));
  std::memset(buffer_ + length_, 0, kBlockBytes - length_);
  return static_cast<uint32_t>((1 + blocks_) * kBlockBytes);
}

namespace {

// `chain`: of all entries, of a record of format 2; else each names its own.
Result<LogRecord> decode(const LogIdentity& identity, std::optional<ChainId> chain, Bytes bytes) {
  if (bytes.size() < kBlockBytes) return Code::not_found;
  Bytes rest = bytes;
  const auto header = take<LogHeader>(rest);
  if (header.magic != (chain ? kMagic2 : kMagic) || header.uuid != identity.uuid ||
      header.epoch != identity.epoch || header.number != identity.number ||
      header.length < sizeof(LogHeader) || header.length > kBlockBytes) {
    return Code::not_found;
  }
  rest = rest.first(header.length - sizeof(LogHeader));
  if (header.crc != checksum(header, rest)) return Code::not_found;
  // From here on the entries are what a program of ours wrote. The blocks may be torn.
  if (header.reserved != decltype(header.reserved){} || header.count == 0) {
    return Code::wrong_version;
  }
  LogRecord record;
  uint64_t at = kBlockBytes;
  while (!rest.empty()) {
    LoggedWrite& write = record.writes.emplace_back();
    if (!chain && rest.size() < sizeof(EntryChain)) return Code::wrong_version;
    write.chain = chain ? *chain : ChainId(take<EntryChain>(rest).chain);
    TRY(take_write(rest, write));
    for (const BlockRef& block : write.blocks) {
      if (at + kBlockBytes > bytes.size()) return Code::not_found;
      if (crc32c(bytes.subspan(at, kBlockBytes)) != block.crc) return Code::not_found;
      at += kBlockBytes;
    }
    const uint64_t length = write.blocks.size() * kBlockBytes;
    write.bytes = bytes.subspan(at - length, length);
  }
  if (record.writes.size() != header.count) return Code::wrong_version;
  record.length = static_cast<uint32_t>(at);
  return record;
}

}  // namespace

Result<LogRecord> decode_log_record(const LogIdentity& identity, Bytes bytes) {
  return decode(identity, std::nullopt, bytes);
}

Result<LogRecord> decode_log_record_2(const LogIdentity& identity, ChainId chain, Bytes bytes) {
  return decode(identity, chain, bytes);
}

}  // namespace penstock::store
