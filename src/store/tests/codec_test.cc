#include "old_format.h"
#include "superblock.h"

#include <gtest/gtest.h>

#include "penstock/engine.h"

namespace penstock::store {
namespace {

const MapKey kKey{ChainId{}, {InodeId(77), 5}, 3};

BlockMap random_map(engine::Random& random) {
  BlockMap map;
  uint32_t last = 0;
  bool any = false;
  for (uint32_t i = 0; i < limits::kMapBlocks; ++i) {
    if (random.chance(1, 3)) continue;
    map.blocks[i] = {static_cast<uint32_t>(random.below(kHole)),
                     static_cast<uint32_t>(random.next())};
    last = i;
    any = true;
  }
  const uint64_t least = any ? last * limits::kBlockBytes + 1 : 1;
  map.valid_end = static_cast<uint32_t>(least + random.below(limits::kMapBytes - least + 1));
  return map;
}

std::string encoded(const BlockMap& map) {
  std::string record(kMapRecordBytesMax, '\0');
  record.resize(encode_map(kKey, map, record.data()));
  return record;
}

// With a checksum that is right for the content, as a hostile writer would make it.
std::string sealed(std::string content) {
  const EncodedMapKey key = encode_key(kKey);
  const uint32_t crc =
      crc32c(std::as_bytes(std::span(content)), crc32c(std::as_bytes(std::span(key))));
  content.append(reinterpret_cast<const char*>(&crc), 4);
  return content;
}

TEST(MapRecord, decodes_to_what_was_encoded) {
  engine::SeededRandom random(1);
  for (int i = 0; i < 200; ++i) {
    const BlockMap map = random_map(random);
    const std::string record = encoded(map);
    BlockMap decoded;
    ASSERT_TRUE(decode_map(kKey, record, decoded).ok());
    EXPECT_EQ(decoded, map);
    // One form for each map.
    EXPECT_EQ(encoded(decoded), record);
  }
}

TEST(MapRecord, has_a_stable_form) {
  BlockMap map;
  map.blocks[1] = {0x01020304, 0xa0b0c0d0};
  map.valid_end = 8192;
  const std::string record = encoded(map);
  const std::string expected(
      "\x02\x00\x01\x00\x00\x00\x00\x00"
      "\x00\x00\x00\x00\x00\x00\x00\x00"
      "\x00\x20\x00\x00\x02\x00\x00\x00"
      "\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00"
      "\x04\x03\x02\x01\x00\x00\x00\x00\xd0\xc0\xb0\xa0",
      48);
  EXPECT_EQ(record.substr(0, 48), expected);
  EXPECT_EQ(record, sealed(expected));
}

TEST(MapRecord, is_refused_when_any_bit_is_flipped_or_it_is_cut) {
  engine::SeededRandom random(2);
  const std::string record = encoded(random_map(random));
  BlockMap decoded;
  for (size_t bit = 0; bit < record.size() * 8; ++bit) {
    std::string damaged = record;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(decode_map(kKey, damaged, decoded).ok()) << bit;
  }
  for (size_t length = 0; length < record.size(); ++length) {
    ASSERT_FALSE(decode_map(kKey, record.substr(0, length), decoded).ok()) << length;
  }
  EXPECT_FALSE(decode_map(kKey, record + '\0', decoded).ok());
  EXPECT_FALSE(decode_map({kKey.chain, kKey.chunk, 4}, record, decoded).ok())
      << "under another key";
  EXPECT_FALSE(decode_map({ChainId(1), kKey.chunk, kKey.index}, record, decoded).ok());
}

const std::string kEntry("\x07\0\0\0\0\0\0\0\x01\x02\x03\x04", 12);
const std::string kHoleEntry("\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 12);

std::string header(uint8_t count, uint32_t valid_end) {
  std::string text("\x02\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
  text.append(reinterpret_cast<const char*>(&valid_end), 4);
  return text.append(1, static_cast<char>(count)).append(3, '\0');
}

Code decode(const std::string& content) {
  BlockMap decoded;
  return decode_map(kKey, sealed(content), decoded).code();
}

TEST(MapRecord, is_refused_when_its_content_contradicts_itself) {
  EXPECT_EQ(decode(header(1, 4096) + kEntry), Code::ok);
  EXPECT_EQ(decode(header(0, 4096)), Code::ok);
  EXPECT_EQ(decode(header(0, 4096).substr(0, 20)), Code::corrupt) << "half a header";
  EXPECT_EQ(decode(header(2, 8192) + kEntry), Code::corrupt) << "too short";
  EXPECT_EQ(decode(header(1, 4096) + kEntry + kEntry), Code::corrupt) << "too long";
  EXPECT_EQ(decode(header(0, 0)), Code::corrupt) << "empty";
  EXPECT_EQ(decode(header(0, limits::kMapBytes + 1)), Code::corrupt);
  EXPECT_EQ(decode(header(2, 8192) + kEntry + kHoleEntry), Code::corrupt) << "ends in a hole";
  EXPECT_EQ(decode(header(2, 4096) + kEntry + kEntry), Code::corrupt) << "mapped beyond the end";
  std::string bad_hole = kHoleEntry;
  bad_hole[8] = 1;
  EXPECT_EQ(decode(header(2, 8192) + bad_hole + kEntry), Code::corrupt) << "hole with a checksum";
  EXPECT_EQ(decode(header(65, limits::kMapBytes) + std::string(65 * 12, '\0')), Code::corrupt);
}

TEST(MapRecord, is_left_to_later_versions_when_it_uses_what_they_know) {
  const std::string good = header(1, 4096) + kEntry;
  // Version, state, kind of checksum, codec, key id, version of the chunk, what is not used yet.
  for (const size_t at : {0, 1, 2, 3, 4, 7, 8, 15, 21, 23}) {
    std::string other = good;
    ++other[at];
    EXPECT_EQ(decode(other), Code::wrong_version) << at;
  }
  std::string far = good;
  far[24 + 4] = 1;  // a block beyond what 32 bits can number
  EXPECT_EQ(decode(far), Code::wrong_version);
  const std::string last("\xff\xff\xff\xff\0\0\0\0\x01\x02\x03\x04", 12);
  EXPECT_EQ(decode(header(1, 4096) + last), Code::wrong_version);
}

TEST(MapRecord, of_format_1_is_read_as_it_was_written) {
  engine::SeededRandom random(3);
  for (int i = 0; i < 200; ++i) {
    const BlockMap map = random_map(random);
    const std::string key = encode_old_key(kKey);
    const std::string record = encode_map_1(key, map);
    BlockMap decoded;
    ASSERT_TRUE(decode_map_1(key, record, decoded).ok());
    EXPECT_EQ(decoded, map);
    EXPECT_EQ(decode_map(key, record, decoded).code(), Code::wrong_version);
    EXPECT_EQ(decode_map_1(key, encode_map_2(key, map), decoded).code(), Code::wrong_version);
    std::string damaged = record;
    damaged[random.below(damaged.size())] ^= 1;
    EXPECT_EQ(decode_map_1(key, damaged, decoded).code(), Code::corrupt);
    EXPECT_FALSE(decode_map_1(key, record.substr(0, random.below(record.size())), decoded).ok());
  }
}

TEST(MapKeys, sort_as_their_chunks_do) {
  const ChainId one(1);
  const MapKey keys[] = {{one, {InodeId(1), 0}, 0},        {one, {InodeId(1), 0}, 255},
                         {one, {InodeId(1), 1}, 0},        {one, {InodeId(1), 256}, 0},
                         {one, {InodeId(2), 0}, 0},        {one, {InodeId(256), 0}, 0},
                         {ChainId(2), {InodeId(1), 0}, 0}, {ChainId(256), {InodeId(0), 0}, 0}};
  for (size_t i = 0; i + 1 < std::size(keys); ++i) {
    EXPECT_LT(as_view(encode_key(keys[i])), as_view(encode_key(keys[i + 1])));
    EXPECT_EQ(decode_key(as_view(encode_key(keys[i]))), keys[i]);
  }
  const EncodedMapKey after = encode_key_after(ChainId{}, InodeId(1));
  EXPECT_LT(as_view(encode_key({ChainId{}, {InodeId(1), UINT32_MAX}, 255})), as_view(after));
  EXPECT_LE(as_view(after), as_view(encode_key({ChainId{}, {InodeId(2), 0}, 0})));
  EXPECT_LT(as_view(encode_key({ChainId{}, {InodeId(UINT64_MAX), 7}, 0})),
            as_view(encode_key_after(ChainId{}, InodeId(UINT64_MAX))));
  EXPECT_EQ(as_view(encode_key_after(ChainId{}, InodeId(UINT64_MAX))),
            as_view(encode_key({one, {}, 0})));
  const MapKey last{ChainId(UINT32_MAX), {InodeId(UINT64_MAX), UINT32_MAX}, 255};
  EXPECT_LT(as_view(encode_key(last)),
            as_view(encode_key_after(ChainId(UINT32_MAX), InodeId(UINT64_MAX))));
}

TEST(MapKeys, of_old_formats_get_a_chain) {
  const std::string old = encode_old_key(kKey);
  EXPECT_EQ(old.size(), kOldMapKeyBytes);
  EXPECT_FALSE(decode_key(old));
  EXPECT_EQ(decode_old_key(old, ChainId(9)), (MapKey{ChainId(9), kKey.chunk, kKey.index}));
  EXPECT_FALSE(decode_old_key(as_view(encode_key(kKey)), ChainId(9)));
  EXPECT_FALSE(decode_old_key(old.substr(1), ChainId(9)));
}

TEST(MapKeys, are_refused_when_malformed) {
  const EncodedMapKey good = encode_key(kKey);
  std::string key(as_view(good));
  EXPECT_FALSE(decode_key(key.substr(1)));
  EXPECT_FALSE(decode_key(key + "x"));
  EXPECT_FALSE(decode_key("A" + key.substr(1)));
  key[key.size() - 2] = 1;  // map 259 of a chunk
  EXPECT_FALSE(decode_key(key));
}

TEST(Superblock, decodes_only_what_was_encoded) {
  Identity identity{TargetId(42), {}};
  for (size_t i = 0; i < 16; ++i) identity.uuid[i] = static_cast<uint8_t>(i * 17);
  const std::string text = encode_superblock(identity);
  const auto decoded = decode_superblock(text);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, identity);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(decode_superblock(damaged)) << i;
    EXPECT_FALSE(decode_superblock(text.substr(0, i))) << i;
  }
  std::string other = text;
  other.replace(other.find("version 3"), 9, "version 9");
  EXPECT_EQ(decode_superblock(other).error().code(), Code::wrong_version);
  EXPECT_FALSE(decode_superblock(text + "\n"));
}

TEST(IdentityRecord, decodes_only_what_was_encoded) {
  const Identity identity{TargetId(42), {1, 2, 3}};
  const std::string record = encode_identity(identity);
  ASSERT_TRUE(decode_identity(record));
  EXPECT_EQ(*decode_identity(record), identity);
  for (size_t i = 0; i < record.size(); ++i) {
    std::string damaged = record;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    EXPECT_FALSE(decode_identity(damaged)) << i;
  }
  EXPECT_FALSE(decode_identity(""));
}

}  // namespace
}  // namespace penstock::store
