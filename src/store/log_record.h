// What the log of durable writes consists of: records in the file, and the mark in the database
// that says where the first one is that matters (docs/formats/store.md). Pure.
#pragma once

#include "block_map.h"
#include "chain_records.h"
#include "superblock.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "penstock/store.h"

namespace penstock::store {

// The mark's key in the database. It sorts between block maps and the identity.
inline constexpr std::string_view kLogKey = "L";
inline constexpr const char* kLogFileName = "write-log";

// Where the log begins: everything before is in block maps.
struct LogMark {
  uint64_t epoch = 0;   // of this opening; records of others do not count
  uint64_t number = 1;  // of the first record that counts
  uint64_t offset = 0;  // where it lies in the file, or will
  uint64_t size = 0;    // of the file
  // Bytes of the file that this life has used before it; not stored.
  uint64_t written = 0;
  friend bool operator==(const LogMark&, const LogMark&) = default;
};

std::string encode_log_mark(const LogMark& mark);
Result<LogMark> decode_log_mark(std::string_view record);

// The longest record of a log of this size.
constexpr uint32_t log_record_bytes(uint64_t size) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(limits::kLogRecordBytes, align_down(size / 4, limits::kBlockBytes)));
}
// Where the record behind one that ends at `end` begins: no record spans the end of the file, and
// the reader knows where the next one begins without having seen it.
constexpr uint64_t next_record_at(uint64_t end, uint64_t size) {
  return size - end < log_record_bytes(size) ? 0 : end;
}

// Neighbouring blocks of a chunk, and where their bytes are to be.
struct LoggedWrite {
  ChainId chain;
  ChunkId chunk;
  uint32_t first_block = 0;
  uint32_t end = 0;  // of the written bytes, in the chunk; in the last block
  std::vector<BlockRef> blocks;
  Bytes bytes;  // of all blocks; lie in what was decoded
};

// A small prepare of a chain (decision 0049), and what its chunk had committed before.
struct LoggedPrepare {
  ChainChunk at;
  UpdateName base;
  std::string record;  // as the database has it
  PendingRecord update;
  Bytes bytes;  // of its blocks, in their order; lie in what was decoded
};

// What a record must name to belong to this log and to be the one that is expected.
struct LogIdentity {
  std::array<uint8_t, 16> uuid{};
  uint64_t epoch = 0;
  uint64_t number = 0;
};

// Gathers writes, or prepares, in a buffer: entries, then the blocks that they name. Those of
// writes are in the first block; those of prepares may need some blocks more.
class LogRecordWriter {
 public:
  // `buffer` has room for the longest record, of `bytes_max`.
  void use(std::byte* buffer, uint32_t bytes_max);
  void clear();
  bool empty() const { return count_ == 0; }
  // For a write, or a prepare with a pending record of that length.
  bool room(uint32_t blocks) const;
  bool room_for_prepare(size_t record_bytes, uint32_t blocks) const;
  // While there is room. Return where the bytes of the blocks go, which must be there before
  // seal().
  std::byte* add(const ChainChunk& at, uint32_t first_block, uint32_t end,
                 std::span<const BlockRef> blocks);
  std::byte* add_prepare(const ChainChunk& at, const UpdateName& base, std::string_view record,
                         uint32_t blocks);
  // Completes the record; returns its length.
  uint32_t seal(const LogIdentity& identity);
  std::byte* bytes() const { return buffer_; }

 private:
  std::byte* add_blocks(uint32_t count);

  std::byte* buffer_ = nullptr;
  uint32_t bytes_max_ = 0;
  uint32_t length_ = 0;  // of header and entries of writes
  uint32_t count_ = 0;
  uint32_t blocks_ = 0;   // that entries name; they lie behind the first one until seal()
  std::string prepares_;  // entries of prepares
};

// Has writes or prepares.
struct LogRecord {
  uint32_t length = 0;  // in whole blocks
  std::vector<LoggedWrite> writes;
  std::vector<LoggedPrepare> prepares;
};

// Whether a record of a log can be so long that it has this prepare; see `room_for_prepare()`.
bool fits_log_record(size_t record_bytes, uint32_t blocks, uint32_t bytes_max);

// The record at the beginning of `bytes`. not_found: there is none, the log ends before it.
// wrong_version for an intact one with what only other versions of this program write.
Result<LogRecord> decode_log_record(const LogIdentity& identity, Bytes bytes);
// The same of a target of format 2, whose chunks are of the chain `chain` from now on.
Result<LogRecord> decode_log_record_2(const LogIdentity& identity, ChainId chain, Bytes bytes);

}  // namespace penstock::store
