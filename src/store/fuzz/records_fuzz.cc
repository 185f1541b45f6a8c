// Hostile bytes for everything that a target reads from its directory and its database: nothing may
// crash, and what decodes must encode to the same bytes.
#include "chain_records.h"
#include "fuzz.h"
#include "log_record.h"
#include "old_formats.h"
#include "superblock.h"
#include "update_effect.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

using namespace penstock;         // NOLINT: a fuzz target is one function
using namespace penstock::store;  // NOLINT

namespace {

const LogIdentity kLogIdentity{{1, 2, 3}, 4, 5};
const ChainChunk kChunkOfRecords{ChainId(2), {InodeId(7), 1}};
const std::string kChunkKey = encode_chunk_key(kChunkKeyType, kChunkOfRecords);
const std::string kPendingKey = encode_chunk_key(kPendingKeyType, kChunkOfRecords);
const std::string kSlotKey = encode_slot_key(ChainId(2), 9, 5);

}  // namespace

namespace penstock::fuzz {
namespace {

// Without their checksums: the target adds them.
void add_chain_seeds(std::vector<std::string>& out) {
  const auto add = [&out](std::string record) {
    record.resize(record.size() - sizeof(uint32_t));
    out.push_back(std::move(record));
  };
  const UpdateName name{3, 4, {1, 2, 9, 5}};
  add(encode_chunk_record(kChunkKey, {name, false, 12345}));
  add(encode_chunk_record(kChunkKey, {name, true, 0}));
  PendingRecord pending;
  pending.name = name;
  pending.parts.resize(3);
  pending.parts[0].end = 5000;
  pending.parts[1].kind = UpdateKind::clear;
  pending.parts[1].end = kWholeChunk;
  pending.parts[2].kind = UpdateKind::remove;
  pending.blocks = {{0, {77, 1}}, {1, {12, 2}}};
  add(encode_pending(kPendingKey, pending));
  add(encode_slot(kSlotKey, {{1, 2, 9, 5}, kChunkOfRecords, name}));
  out.push_back(kChunkKey);
}

}  // namespace

// Records of maps without the checksum that ends them: the target adds it.
std::vector<std::string> seeds() {
  const MapKey key{ChainId{}, {InodeId(7), 1}, 2};
  std::vector<std::string> out = {std::string(as_view(encode_key(key)))};
  BlockMap map;
  for (const size_t mapped : {size_t{1}, size_t{17}, map.blocks.size()}) {
    for (size_t i = 0; i < mapped; ++i) map.blocks[i] = {1000 + i * i, 7};
    map.valid_end = static_cast<uint32_t>(mapped * 4096 - 5);
    char record[std::max(kMapRecordBytesMax, kQuarterRecordBytesMax)];
    size_t length = encode_map(key, map, record);
    out.emplace_back(record, length);
    out.emplace_back(record, length - sizeof(uint32_t));
    length = encode_quarter(key, 0, map, is_scattered_wide(map), record);
    out.emplace_back(record, length - sizeof(uint32_t));
  }
  OldMap old;
  for (size_t i = 0; i < 9; ++i) old.blocks[i] = {1000 + i * i, 7};
  old.valid_end = 9 * 4096 - 5;
  const std::string old_record = encode_old_map(as_view(encode_key(key)), old);
  out.push_back(old_record.substr(0, old_record.size() - sizeof(uint32_t)));
  const Identity identity{TargetId(3), {1, 2, 3}};
  for (const uint32_t version : {kOldFormatVersion, kFormatVersion}) {
    out.push_back(encode_superblock(identity, version));
    out.push_back(encode_identity(identity, version));
  }
  out.push_back(encode_log_mark({4, 5, 8192, 256 * kKiB, 0}));
  std::string log(4 * 4096, 'x');
  LogRecordWriter writer;
  writer.use(reinterpret_cast<std::byte*>(log.data()), static_cast<uint32_t>(log.size()));
  const uint32_t of_block = crc32c(std::as_bytes(std::span(log)).first(4096));
  const BlockRef blocks[] = {{1000, of_block}, {1003, of_block}, {17, of_block}};
  (void)writer.add({ChainId(2), {InodeId(7), 1}}, 2, 4 * 4096 - 5, std::span(blocks).first(2));
  (void)writer.add({ChainId(2), {InodeId(8), 0}}, 0, 1, std::span(blocks).last(1));
  log.resize(writer.seal(kLogIdentity));
  out.push_back(log);
  log.assign(4 * 4096, 'x');
  writer.use(reinterpret_cast<std::byte*>(log.data()), static_cast<uint32_t>(log.size()));
  const ChainChunk at{ChainId(2), {InodeId(7), 1}};
  PendingRecord update;
  update.name = {3, 5, {1, 2, 3, 4}};
  update.parts.resize(1);
  update.parts[0].end = 8192;
  update.blocks = {{0, {1000, of_block}}, {1, {1001, of_block}}};
  const std::string record = encode_pending(encode_chunk_key(kPendingKeyType, at), update);
  (void)writer.add_prepare(at, {3, 4, {1, 1, 3, 4}}, record, 2);
  log.resize(writer.seal(kLogIdentity));
  out.push_back(log);
  log.assign(4096, 'x');
  writer.use(reinterpret_cast<std::byte*>(log.data()), static_cast<uint32_t>(log.size()));
  update.parts[0].kind = UpdateKind::remove;
  update.blocks.clear();
  const std::string removal = encode_pending(encode_chunk_key(kPendingKeyType, at), update);
  (void)writer.add_prepare(at, {3, 4, {1, 1, 3, 4}}, removal, 0);
  log.resize(writer.seal(kLogIdentity));
  out.push_back(log);
  add_chain_seeds(out);
  return out;
}

}  // namespace penstock::fuzz

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_record(std::string_view input) {
  const MapKey key{ChainId{}, {InodeId(7), 1}, 2};
  BlockMap map;
  // As it is, and with the checksum made right, so that the checks behind it are reached.
  std::string sealed(input);
  const EncodedMapKey encoded_key = encode_key(key);
  const uint32_t of_key = crc32c(std::as_bytes(std::span(encoded_key)));
  const uint32_t crc = crc32c(std::as_bytes(std::span(input)), of_key);
  sealed.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  for (const std::string_view record : {input, std::string_view(sealed)}) {
    OldMap old;
    if (decode_old_map_1(as_view(encoded_key), record, old).ok()) check(!old.empty());
    if (decode_old_map(as_view(encoded_key), record, old).ok()) {
      check(encode_old_map(as_view(encoded_key), old) == record);
    }
    bool wide = false;
    if (!decode_map(key, record, map, wide).ok()) continue;
    check(!map.empty() && (!wide || map.mapped() == 0));
    char again[kMapRecordBytesMax];
    if (!wide) check(std::string_view(again, encode_map(key, map, again)) == record);
  }
}

// Of a map that has the blocks that the input says, and of one that says nothing of them.
void check_quarter(std::string_view input) {
  const MapKey key{ChainId{}, {InodeId(7), 1}, 2};
  std::string sealed(input);
  const uint32_t crc = map_checksum(as_view(encode_quarter_key(key, 0)), input);
  sealed.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  BlockMap map;
  map.valid_end = store::limits::kMapBytes;
  uint64_t mapped = 0;
  if (input.size() >= 16) std::memcpy(&mapped, input.data() + 8, sizeof(mapped));
  for (uint32_t i = 0; i < 64; ++i) {
    if ((mapped >> i & 1) != 0) map.blocks[i] = {i, 0};
  }
  BlockMap none;
  none.valid_end = store::limits::kMapBytes;
  char again[kQuarterRecordBytesMax];
  if (decode_quarter(key, 0, sealed, false, map).ok()) {
    check(std::string_view(again, encode_quarter(key, 0, map, false, again)) == sealed);
  }
  if (decode_quarter(key, 0, sealed, true, none).ok()) {
    check(std::string_view(again, encode_quarter(key, 0, none, true, again)) == sealed);
  }
}

std::string with_checksum(const std::string& key, std::string_view content) {
  std::string record(content);
  const uint32_t crc = map_checksum(key, content);
  return record.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
}

void check_chain_records(std::string_view input) {
  ChunkState state;
  const std::string chunk = with_checksum(kChunkKey, input);
  if (decode_chunk_record(kChunkKey, chunk, state).ok()) {
    check(encode_chunk_record(kChunkKey, state) == chunk);
  }
  PendingRecord pending;
  const std::string update = with_checksum(kPendingKey, input);
  if (decode_pending(kPendingKey, update, pending).ok()) {
    check(encode_pending(kPendingKey, pending) == update);
    // What is done with it at its commit.
    const UpdateEffect effect(pending.parts, 1'000'000);
    check(effect.length() <= store::limits::kChunkBytesMax);
    for (const uint32_t block : {0u, 1u, store::limits::kChunkBlocksMax - 1})
      (void)effect.block(block);
    check(effect.valid_end(0, 5) <= store::limits::kMapBytes);
  }
  SlotRecord slot;
  const std::string record = with_checksum(kSlotKey, input);
  if (decode_slot(kSlotKey, record, slot).ok()) check(encode_slot(kSlotKey, slot) == record);
  if (const auto at = decode_chunk_key(kChunkKeyType, input)) {
    check(encode_chunk_key(kChunkKeyType, *at) == input);
  }
}

// Gives an entry of a prepare the length that it has, and its record the right checksum.
void seal_prepare(std::span<std::byte> entry) {
  const auto length = static_cast<uint32_t>(entry.size() - 64);
  std::memcpy(entry.data() + 56, &length, 4);
  ChainChunk at;
  std::memcpy(&at.chunk.inode.value, entry.data(), 8);
  std::memcpy(&at.chain.value, entry.data() + 8, 4);
  std::memcpy(&at.chunk.index, entry.data() + 12, 4);
  const std::string_view record(reinterpret_cast<const char*>(entry.data()) + 64, length - 4);
  const uint32_t crc = map_checksum(encode_chunk_key(kPendingKeyType, at), record);
  std::memcpy(entry.data() + 64 + record.size(), &crc, 4);
}

// A record of the log: as it is, and with its checksums made right.
void check_log_record(std::string_view input) {
  std::vector<std::byte> bytes(std::max<size_t>(input.size(), 4096));
  std::memcpy(bytes.data(), input.data(), input.size());
  (void)decode_log_record(kLogIdentity, bytes);
  (void)decode_log_record_2(kLogIdentity, ChainId(1), bytes);
  constexpr char kMagic[] = "PSTKLOG2";
  std::memcpy(bytes.data(), kMagic, 8);
  std::memcpy(bytes.data() + 8, kLogIdentity.uuid.data(), 16);
  std::memcpy(bytes.data() + 24, &kLogIdentity.epoch, 8);
  std::memcpy(bytes.data() + 32, &kLogIdentity.number, 8);
  uint32_t length = 0, crc = 0;
  std::memcpy(&length, bytes.data() + 40, 4);
  length %= 4097;
  std::memcpy(bytes.data() + 40, &length, 4);
  uint32_t prepares = 0;
  std::memcpy(&prepares, bytes.data() + 56, 4);
  if (bytes[52] == std::byte{1}) {
    // As the pending record of an only entry, with its checksum made right, too.
    prepares %= static_cast<uint32_t>(bytes.size() - 64);
    std::memcpy(bytes.data() + 56, &prepares, 4);
    if (prepares > 64 + 4) seal_prepare(std::span(bytes).subspan(64, prepares));
    const uint32_t of_prepares = crc32c({bytes.data() + 64, prepares});
    std::memcpy(bytes.data() + 60, &of_prepares, 4);
  }
  std::memcpy(bytes.data() + 48, &crc, 4);
  crc = crc32c({bytes.data(), length});
  std::memcpy(bytes.data() + 48, &crc, 4);
  const auto record = decode_log_record(kLogIdentity, bytes);
  if (!record) return;
  check(record->length <= bytes.size());
  for (const LoggedWrite& write : record->writes) {
    check(write.bytes.size() == write.blocks.size() * 4096);
    check(write.bytes.data() + write.bytes.size() <= bytes.data() + bytes.size());
    check(write.first_block + write.blocks.size() <= store::limits::kChunkBlocksMax);
  }
  for (const LoggedPrepare& prepare : record->prepares) {
    check(prepare.bytes.size() == prepare.update.blocks.size() * 4096);
    check(prepare.bytes.data() + prepare.bytes.size() <= bytes.data() + bytes.size());
    check(prepare.update.name.counter > prepare.base.counter);
    check(prepare.record ==
          encode_pending(encode_chunk_key(kPendingKeyType, prepare.at), prepare.update));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_record(input);
  check_quarter(input);
  check_log_record(input);
  check_chain_records(input);
  if (const auto mark = decode_log_mark(input)) check(encode_log_mark(*mark) == input);
  if (const auto key = decode_key(input)) check(as_view(encode_key(*key)) == input);
  if (const auto key = decode_quarter_key(input)) {
    check(as_view(encode_quarter_key(key->map, key->quarter)) == input);
  }
  if (const auto identity = decode_superblock(input)) {
    check(encode_superblock(*identity) == input);
  }
  if (const auto identity = decode_identity(input)) check(encode_identity(*identity) == input);
  return 0;
}
