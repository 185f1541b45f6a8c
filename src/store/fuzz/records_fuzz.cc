// Hostile bytes for everything that a target reads from its directory and its database: nothing may
// crash, and what decodes must encode to the same bytes.
#include "chain_records.h"
#include "fuzz.h"
#include "log_record.h"
#include "old_formats.h"
#include "superblock.h"
#include "update_effect.h"

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
    for (size_t i = 0; i < mapped; ++i) map.blocks[i] = {static_cast<uint32_t>(1000 + i * i), 7};
    map.valid_end = static_cast<uint32_t>(mapped * 4096 - 5);
    char record[kMapRecordBytesMax];
    const size_t length = encode_map(key, map, record);
    out.emplace_back(record, length);
    out.emplace_back(record, length - sizeof(uint32_t));
  }
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
    if (decode_map_1(as_view(encoded_key), record, map).ok()) check(!map.empty());
    if (!decode_map(key, record, map).ok()) continue;
    check(!map.empty());
    char again[kMapRecordBytesMax];
    check(std::string_view(again, encode_map(key, map, again)) == record);
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
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_record(input);
  check_log_record(input);
  check_chain_records(input);
  if (const auto mark = decode_log_mark(input)) check(encode_log_mark(*mark) == input);
  if (const auto key = decode_key(input)) check(as_view(encode_key(*key)) == input);
  if (const auto identity = decode_superblock(input)) {
    check(encode_superblock(*identity) == input);
  }
  if (const auto identity = decode_identity(input)) check(encode_identity(*identity) == input);
  return 0;
}
