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

// What a record has entries of.
enum class LogKind : uint8_t { writes = 0, prepares = 1 };

// At first: this, the entries, zeros up to the end of a block. The bytes that the entries name
// follow in whole blocks. Entries of prepares are counted and summed apart: programs that do not
// know them see an intact header that says what they refuse.
struct LogHeader {
  Magic magic = kMagic;
  std::array<uint8_t, 16> uuid{};
  uint64_t epoch = 0;
  uint64_t number = 0;
  uint32_t length = 0;  // of header and entries of writes
  uint32_t count = 0;   // of entries
  uint32_t crc = 0;     // of these `length` bytes, with zeros here
  LogKind kind = LogKind::writes;
  std::array<uint8_t, 3> reserved{};
  uint32_t prepares_length = 0;  // of entries of prepares, behind the header
  uint32_t prepares_crc = 0;
};
static_assert(sizeof(LogHeader) == 64 && offsetof(LogHeader, length) == 40 &&
              offsetof(LogHeader, crc) == 48 && offsetof(LogHeader, prepares_crc) == 60 &&
              std::has_unique_object_representations_v<LogHeader>);

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

// An entry of a prepare; its pending record follows.
struct PrepareEntry {
  uint64_t inode = 0;
  uint32_t chain = 0;
  uint32_t chunk = 0;
  UpdateName base;
  uint32_t record_length = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(PrepareEntry) == 64 && std::has_unique_object_representations_v<PrepareEntry>);

// Blocks of header and entries of prepares.
constexpr uint32_t prepare_blocks(size_t entries) {
  return static_cast<uint32_t>((sizeof(LogHeader) + entries + kBlockBytes - 1) / kBlockBytes);
}

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
    const BlockNumber place = BlockNumber{ref.high} << 32 | ref.low;
    if (place >= limits::kTargetBlocksMax) return Code::wrong_version;
    write.blocks.push_back({place, ref.crc});
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
  prepares_.clear();
}

std::byte* LogRecordWriter::add_blocks(uint32_t count) {
  std::byte* const bytes = buffer_ + (1 + blocks_) * kBlockBytes;
  ++count_;
  blocks_ += count;
  return bytes;
}

bool fits_log_record(size_t record_bytes, uint32_t blocks, uint32_t bytes_max) {
  const uint32_t first = prepare_blocks(sizeof(PrepareEntry) + record_bytes);
  return first <= limits::kLogPrepareBlocks && (first + blocks) * kBlockBytes <= bytes_max;
}

bool LogRecordWriter::room_for_prepare(size_t record_bytes, uint32_t blocks) const {
  const bool holds_writes = count_ > 0 && prepares_.empty();
  return !holds_writes &&
         fits_log_record(prepares_.size() + record_bytes, blocks_ + blocks, bytes_max_);
}

std::byte* LogRecordWriter::add_prepare(const ChainChunk& at, const UpdateName& base,
                                        std::string_view record, uint32_t blocks) {
  ASSERT(!record.empty() && room_for_prepare(record.size(), blocks));
  const PrepareEntry entry{at.chunk.inode.value,
                           at.chain.value,
                           at.chunk.index,
                           base,
                           static_cast<uint32_t>(record.size()),
                           0};
  prepares_.append(reinterpret_cast<const char*>(&entry), sizeof(entry));
  prepares_.append(record);
  return add_blocks(blocks);
}

bool LogRecordWriter::room(uint32_t blocks) const {
  return prepares_.empty() &&
         length_ + kLogEntryBytes + blocks * sizeof(StoredRef) <= kBlockBytes &&
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
    ASSERT(block.physical < limits::kTargetBlocksMax);
    const StoredRef ref{static_cast<uint32_t>(block.physical),
                        static_cast<uint32_t>(block.physical >> 32), block.crc};
    std::memcpy(buffer_ + length_, &ref, sizeof(ref));
    length_ += sizeof(ref);
  }
  return add_blocks(count);
}

uint32_t LogRecordWriter::seal(const LogIdentity& identity) {
  ASSERT(count_ > 0 && length_ <= kBlockBytes);
  ASSERT(prepares_.empty() || length_ == sizeof(LogHeader));
  LogHeader header;
  header.uuid = identity.uuid;
  header.epoch = identity.epoch;
  header.number = identity.number;
  header.length = length_;
  header.count = count_;
  if (!prepares_.empty()) {
    header.kind = LogKind::prepares;
    header.prepares_length = static_cast<uint32_t>(prepares_.size());
    header.prepares_crc = crc32c(std::as_bytes(std::span(prepares_)));
  }
  header.crc = checksum(
      header, {buffer_ + sizeof(LogHeader), static_cast<size_t>(length_ - sizeof(LogHeader))});
  const uint32_t first = prepare_blocks(prepares_.size());
  ASSERT(first == 1 || !prepares_.empty());
  ASSERT((first + blocks_) * kBlockBytes <= bytes_max_);
  if (first > 1) {
    std::memmove(buffer_ + first * kBlockBytes, buffer_ + kBlockBytes, blocks_ * kBlockBytes);
  }
  std::memcpy(buffer_, &header, sizeof(header));
  std::memcpy(buffer_ + length_, prepares_.data(), prepares_.size());
  const size_t end = length_ + prepares_.size();
  std::memset(buffer_ + end, 0, first * kBlockBytes - end);
  return static_cast<uint32_t>((first + blocks_) * kBlockBytes);
}

namespace {

const BlockRef& ref_of(const BlockRef& block) {
  return block;
}
const BlockRef& ref_of(const PendingBlock& block) {
  return block.ref;
}

// Takes the blocks that an entry names from what follows the entries. not_found: they are torn.
template <class Blocks>
Status take_blocks(Bytes bytes, uint64_t& at, const Blocks& blocks, Bytes& taken) {
  const uint64_t begin = at;
  for (const auto& block : blocks) {
    if (at + kBlockBytes > bytes.size()) return Code::not_found;
    if (crc32c(bytes.subspan(at, kBlockBytes)) != ref_of(block).crc) return Code::not_found;
    at += kBlockBytes;
  }
  taken = bytes.subspan(begin, at - begin);
  return Code::ok;
}

Status take_prepare(Bytes& entries, LoggedPrepare& prepare) {
  if (entries.size() < sizeof(PrepareEntry)) return Code::wrong_version;
  const auto entry = take<PrepareEntry>(entries);
  if (entry.reserved != 0 || entry.record_length > entries.size()) return Code::wrong_version;
  prepare.at = {ChainId(entry.chain), {InodeId(entry.inode), entry.chunk}};
  prepare.base = entry.base;
  prepare.record.assign(reinterpret_cast<const char*>(entries.data()), entry.record_length);
  entries = entries.subspan(entry.record_length);
  const std::string key = encode_chunk_key(kPendingKeyType, prepare.at);
  const Status status = decode_pending(key, prepare.record, prepare.update);
  // The record of the log is intact.
  if (!status.ok()) return Code::wrong_version;
  return prepare.update.name.counter > prepare.base.counter ? Code::ok : Code::wrong_version;
}

// The entries of prepares, and their blocks.
Result<LogRecord> decode_prepares(const LogHeader& header, Bytes bytes) {
  if (header.length != sizeof(LogHeader)) return Code::wrong_version;
  const uint64_t first = uint64_t{prepare_blocks(header.prepares_length)} * kBlockBytes;
  if (first > limits::kLogPrepareBlocks * kBlockBytes) return Code::wrong_version;
  if (first > bytes.size()) return Code::not_found;
  Bytes entries = bytes.subspan(sizeof(LogHeader), header.prepares_length);
  if (crc32c(entries) != header.prepares_crc) return Code::not_found;
  LogRecord record;
  uint64_t at = first;
  while (!entries.empty()) {
    LoggedPrepare& prepare = record.prepares.emplace_back();
    TRY(take_prepare(entries, prepare));
    TRY(take_blocks(bytes, at, prepare.update.blocks, prepare.bytes));
  }
  if (record.prepares.size() != header.count) return Code::wrong_version;
  record.length = static_cast<uint32_t>(at);
  return record;
}

// `chain`: of all entries, of a record of format 2; else each names its own.
Result<LogRecord> decode_writes(const LogHeader& header, std::optional<ChainId> chain, Bytes rest,
                                Bytes bytes) {
  if (header.prepares_length != 0 || header.prepares_crc != 0) return Code::wrong_version;
  LogRecord record;
  uint64_t at = kBlockBytes;
  while (!rest.empty()) {
    LoggedWrite& write = record.writes.emplace_back();
    if (!chain && rest.size() < sizeof(EntryChain)) return Code::wrong_version;
    write.chain = chain ? *chain : ChainId(take<EntryChain>(rest).chain);
    TRY(take_write(rest, write));
    TRY(take_blocks(bytes, at, write.blocks, write.bytes));
  }
  if (record.writes.size() != header.count) return Code::wrong_version;
  record.length = static_cast<uint32_t>(at);
  return record;
}

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
  // From here on the header is what a program of ours wrote. What follows it may be torn.
  if (header.reserved != decltype(header.reserved){} || header.count == 0) {
    return Code::wrong_version;
  }
  if (header.kind == LogKind::prepares && !chain) return decode_prepares(header, bytes);
  if (header.kind != LogKind::writes) return Code::wrong_version;
  return decode_writes(header, chain, rest, bytes);
}

}  // namespace

Result<LogRecord> decode_log_record(const LogIdentity& identity, Bytes bytes) {
  return decode(identity, std::nullopt, bytes);
}

Result<LogRecord> decode_log_record_2(const LogIdentity& identity, ChainId chain, Bytes bytes) {
  return decode(identity, chain, bytes);
}

}  // namespace penstock::store
