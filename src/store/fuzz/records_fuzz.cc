// Hostile bytes for everything that a target reads from its directory and its database: nothing may
// crash, and what decodes must encode to the same bytes.
#include "fuzz.h"
#include "log_record.h"
#include "old_formats.h"
#include "superblock.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

using namespace penstock;         // NOLINT: a fuzz target is one function
using namespace penstock::store;  // NOLINT

namespace {

const LogIdentity kLogIdentity{{1, 2, 3}, 4, 5};

}  // namespace

namespace penstock::fuzz {

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
  (void)writer.add({InodeId(7), 1}, 2, 4 * 4096 - 5, std::span(blocks).first(2));
  (void)writer.add({InodeId(8), 0}, 0, 1, std::span(blocks).last(1));
  log.resize(writer.seal(kLogIdentity));
  out.push_back(log);
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
  if (const auto mark = decode_log_mark(input)) check(encode_log_mark(*mark) == input);
  if (const auto key = decode_key(input)) check(as_view(encode_key(*key)) == input);
  if (const auto identity = decode_superblock(input)) {
    check(encode_superblock(*identity) == input);
  }
  if (const auto identity = decode_identity(input)) check(encode_identity(*identity) == input);
  return 0;
}
