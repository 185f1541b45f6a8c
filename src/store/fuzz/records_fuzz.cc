// Hostile bytes for everything that a target reads from its directory and its database: nothing may
// crash, and what decodes must encode to the same bytes.
#include "format_1.h"
#include "fuzz.h"
#include "superblock.h"

#include <cstdlib>
#include <string_view>

using namespace penstock;         // NOLINT: a fuzz target is one function
using namespace penstock::store;  // NOLINT

namespace penstock::fuzz {

// Records of maps without the checksum that ends them: the target adds it.
std::vector<std::string> seeds() {
  const MapKey key{{InodeId(7), 1}, 2};
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
  return out;
}

}  // namespace penstock::fuzz

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_record(std::string_view input) {
  const MapKey key{{InodeId(7), 1}, 2};
  BlockMap map;
  // As it is, and with the checksum made right, so that the checks behind it are reached.
  std::string sealed(input);
  const EncodedMapKey encoded_key = encode_key(key);
  const uint32_t of_key = crc32c(std::as_bytes(std::span(encoded_key)));
  const uint32_t crc = crc32c(std::as_bytes(std::span(input)), of_key);
  sealed.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  for (const std::string_view record : {input, std::string_view(sealed)}) {
    if (decode_map_1(key, record, map).ok()) check(!map.empty());
    if (!decode_map(key, record, map).ok()) continue;
    check(!map.empty());
    char again[kMapRecordBytesMax];
    check(std::string_view(again, encode_map(key, map, again)) == record);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_record(input);
  if (const auto key = decode_key(input)) check(as_view(encode_key(*key)) == input);
  if (const auto identity = decode_superblock(input)) {
    check(encode_superblock(*identity) == input);
  }
  if (const auto identity = decode_identity(input)) check(encode_identity(*identity) == input);
  return 0;
}
