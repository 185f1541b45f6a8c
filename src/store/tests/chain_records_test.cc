#include "chain_records.h"

#include "chain_rig.h"

namespace penstock::store {
namespace {

PendingRecord some_pending() {
  PendingRecord pending;
  pending.name = name_of(7);
  pending.parts = {write_part(0, 5000, request_of(1)), clear_part(9000, kWholeChunk),
                   remove_part(request_of(3, 3))};
  pending.blocks = {{0, {77, 1}}, {1, {12, 2}}, {16383, {limits::kTargetBlocksMax - 1, 3}}};
  return pending;
}

TEST(ChainKeys, sort_as_their_chunks_do) {
  const ChainChunk in_order[] = {{ChainId(1), {InodeId(1), 0}},
                                 {ChainId(1), {InodeId(1), 256}},
                                 {ChainId(1), {InodeId(256), 1}},
                                 {ChainId(2), {InodeId(0), 0}},
                                 {ChainId(256), {InodeId(0), 0}}};
  for (size_t i = 0; i < std::size(in_order); ++i) {
    const std::string key = encode_chunk_key(kChunkKeyType, in_order[i]);
    EXPECT_EQ(decode_chunk_key(kChunkKeyType, key), in_order[i]);
    EXPECT_FALSE(decode_chunk_key(kPendingKeyType, key));
    EXPECT_FALSE(decode_chunk_key(kChunkKeyType, key.substr(1)));
    EXPECT_FALSE(decode_chunk_key(kChunkKeyType, key + "x"));
    if (i > 0) {
      EXPECT_LT(encode_chunk_key(kChunkKeyType, in_order[i - 1]), key);
    }
  }
}

// Any change of a byte, of the length or of the key is seen.
template <class Decode>
void expect_strict(const std::string& key, const std::string& record, Decode decode) {
  ASSERT_TRUE(decode(key, record).ok());
  for (size_t i = 0; i < record.size(); ++i) {
    std::string changed = record;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_EQ(decode(key, changed).code(), Code::corrupt) << i;
    EXPECT_FALSE(decode(key, record.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(decode(key, record + '\0').ok());
  std::string other = key;
  other.back() = static_cast<char>(other.back() ^ 1);
  EXPECT_EQ(decode(other, record).code(), Code::corrupt);
}

std::string sealed(const std::string& key, std::string record, size_t at, char value) {
  record.resize(record.size() - 4);
  record[at] = value;
  const uint32_t crc = map_checksum(key, record);
  return record.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
}

TEST(ChunkRecord, is_what_was_encoded) {
  const std::string key = encode_chunk_key(kChunkKeyType, kAt);
  const ChunkState state{name_of(4), false, 12345};
  const std::string record = encode_chunk_record(key, state);
  EXPECT_EQ(record.size(), 52u);
  const auto decode = [](std::string_view k, std::string_view r) {
    ChunkState decoded;
    return decode_chunk_record(k, r, decoded);
  };
  expect_strict(key, record, decode);
  ChunkState decoded;
  ASSERT_TRUE(decode_chunk_record(key, record, decoded).ok());
  EXPECT_EQ(decoded.committed, state.committed);
  EXPECT_EQ(decoded.length, state.length);
  EXPECT_FALSE(decoded.removed);
  EXPECT_EQ(decode(key, sealed(key, record, 0, 2)).code(), Code::wrong_version);
  EXPECT_EQ(decode(key, sealed(key, record, 1, 2)).code(), Code::wrong_version);
  EXPECT_EQ(decode(key, sealed(key, record, 1, 1)).code(), Code::corrupt) << "removed, with bytes";
  EXPECT_EQ(decode(key, sealed(key, record, 2, 1)).code(), Code::wrong_version);
  EXPECT_EQ(decode(key, sealed(key, record, 7, 5)).code(), Code::corrupt) << "too long";
}

TEST(PendingRecordOf, is_what_was_encoded) {
  const std::string key = encode_chunk_key(kPendingKeyType, kAt);
  const PendingRecord pending = some_pending();
  const std::string record = encode_pending(key, pending);
  EXPECT_EQ(record.size(), 56u + 3 * 40 + 3 * 16 + 4);
  const auto decode = [](std::string_view k, std::string_view r) {
    PendingRecord decoded;
    return decode_pending(k, r, decoded);
  };
  expect_strict(key, record, decode);
  PendingRecord decoded;
  ASSERT_TRUE(decode_pending(key, record, decoded).ok());
  EXPECT_EQ(decoded.name, pending.name);
  EXPECT_EQ(decoded.blocks, pending.blocks);
  ASSERT_EQ(decoded.parts.size(), 3u);
  EXPECT_EQ(std::memcmp(decoded.parts.data(), pending.parts.data(), 3 * sizeof(UpdatePart)), 0);
  EXPECT_EQ(decode(key, sealed(key, record, 0, 2)).code(), Code::wrong_version);
  EXPECT_EQ(decode(key, sealed(key, record, 3, 1)).code(), Code::wrong_version);
  EXPECT_EQ(decode(key, sealed(key, record, 8, 4)).code(), Code::corrupt) << "parts";
  EXPECT_EQ(decode(key, sealed(key, record, 12, 4)).code(), Code::corrupt) << "blocks";
  EXPECT_EQ(decode(key, sealed(key, record, 56 + 32, 9)).code(), Code::wrong_version) << "kind";
  constexpr size_t kBlocks = 56 + 3 * 40;
  EXPECT_EQ(decode(key, sealed(key, record, kBlocks, 1)).code(), Code::corrupt) << "order";
  EXPECT_EQ(decode(key, sealed(key, record, kBlocks + 2, 1)).code(), Code::corrupt) << "order";
  EXPECT_EQ(decode(key, sealed(key, record, kBlocks + 12, 0x40)).code(), Code::wrong_version)
      << "a place beyond 1 PiB";
}

TEST(SlotRecordOf, is_what_was_encoded) {
  const SlotRecord slot{request_of(3, 6, 8), kAt, name_of(5)};
  const std::string key = encode_slot_key(kAt.chain, 8, 6);
  const std::string record = encode_slot(key, slot);
  const auto decode = [](std::string_view k, std::string_view r) {
    SlotRecord decoded;
    return decode_slot(k, r, decoded);
  };
  expect_strict(key, record, decode);
  SlotRecord decoded;
  ASSERT_TRUE(decode_slot(key, record, decoded).ok());
  EXPECT_EQ(decoded.request, slot.request);
  EXPECT_EQ(decoded.at, slot.at);
  EXPECT_EQ(decoded.name, slot.name);
  EXPECT_EQ(decode(key, sealed(key, record, 16 + 20, 9)).code(), Code::corrupt)
      << "the slot is not the key's";
}

}  // namespace
}  // namespace penstock::store
