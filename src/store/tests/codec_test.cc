#include "block_map.h"
#include "superblock.h"

#include <gtest/gtest.h>

#include "penstock/engine.h"

namespace penstock::store {
namespace {

const MapKey kKey{ChainId{}, {InodeId(77), 5}, 3};

BlockRef random_block(engine::Random& random) {
  return {random.below(limits::kTargetBlocksMax), static_cast<uint32_t>(random.next())};
}

// Blocks in about so many runs.
BlockMap random_map(engine::Random& random, uint32_t runs) {
  BlockMap map;
  uint32_t last = 0;
  bool any = false;
  for (uint32_t i = 0; i < limits::kMapBlocks; ++i) {
    if (random.chance(runs, limits::kMapBlocks) || i == 0) {
      if (random.chance(1, 3)) continue;
      map.blocks[i] = random_block(random);
    } else if (!map.blocks[i - 1].hole()) {
      map.blocks[i] = {(map.blocks[i - 1].physical + 1) % limits::kTargetBlocksMax,
                       static_cast<uint32_t>(random.next())};
    }
    any = any || !map.blocks[i].hole();
    if (!map.blocks[i].hole()) last = i;
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

std::string encoded_quarter(const BlockMap& map, uint32_t quarter) {
  std::string record(kQuarterRecordBytesMax, '\0');
  record.resize(encode_quarter(kKey, quarter, map, is_scattered_wide(map), record.data()));
  return record;
}

// With a checksum that is right for the content, as a hostile writer would make it.
std::string sealed(std::string content, const EncodedMapKey& key = encode_key(kKey)) {
  const uint32_t crc =
      crc32c(std::as_bytes(std::span(content)), crc32c(std::as_bytes(std::span(key))));
  content.append(reinterpret_cast<const char*>(&crc), 4);
  return content;
}

TEST(MapRecord, decodes_to_what_was_encoded) {
  engine::SeededRandom random(1);
  uint32_t near = 0;
  for (int i = 0; i < 400; ++i) {
    const BlockMap map = random_map(random, i % 40);
    const std::string record = encoded(map);
    BlockMap decoded;
    bool wide = false;
    ASSERT_TRUE(decode_map(kKey, record, decoded, wide).ok());
    EXPECT_EQ(wide, is_scattered_wide(map));
    near += wide ? 0 : 1;
    EXPECT_EQ(decoded.valid_end, map.valid_end);
    for (uint32_t b = 0; !wide && b < limits::kMapBlocks; ++b) {
      ASSERT_EQ(decoded.blocks[b].physical, map.blocks[b].physical) << b;
      ASSERT_EQ(decoded.blocks[b].crc, 0u);
    }
    for (uint32_t quarter = 0; quarter < limits::kMapQuarters; ++quarter) {
      if (map.mapped_of(quarter) == 0) continue;
      const std::string of_quarter = encoded_quarter(map, quarter);
      ASSERT_TRUE(decode_quarter(kKey, quarter, of_quarter, wide, decoded).ok());
    }
    EXPECT_EQ(decoded, map);
    // One form for each map.
    EXPECT_EQ(encoded(decoded), record);
  }
  EXPECT_GT(near, 50u);
  EXPECT_LT(near, 350u);
}

TEST(MapRecord, has_a_stable_form) {
  BlockMap map;
  for (uint32_t b = 1; b < 70; ++b) map.blocks[b] = {0x3f01020300ull + b, 0xa0b0c000 + b};
  map.valid_end = 70 * 4096;
  const std::string expected(
      "\x03\x00\x00\x01\x00\x60\x04\x00"
      "\x01\x03\x02\x01\x3f\x01\x44\x00",
      16);
  EXPECT_EQ(encoded(map).substr(0, 16), expected);
  EXPECT_EQ(encoded(map), sealed(expected));
  const std::string quarter(
      "\x01\x00\x01\x00\x00\x00\x00\x00"
      "\x3f\x00\x00\x00\x00\x00\x00\x00"
      "\x40\xc0\xb0\xa0\x41\xc0\xb0\xa0\x42\xc0\xb0\xa0"
      "\x43\xc0\xb0\xa0\x44\xc0\xb0\xa0\x45\xc0\xb0\xa0",
      40);
  EXPECT_EQ(encoded_quarter(map, 1), sealed(quarter, encode_quarter_key(kKey, 1)));
  EXPECT_EQ(encoded_quarter(map, 0).size(), 16u + 63 * 4 + 4);
}

TEST(MapRecord, of_a_MiB_in_one_run_is_of_20_bytes) {
  BlockMap map;
  for (uint32_t b = 0; b < limits::kMapBlocks; ++b) map.blocks[b] = {1000 + b, 7};
  map.valid_end = limits::kMapBytes;
  EXPECT_EQ(encoded(map).size(), 20u);
}

TEST(MapRecord, is_refused_when_any_bit_is_flipped_or_it_is_cut) {
  engine::SeededRandom random(2);
  const BlockMap map = random_map(random, 8);
  ASSERT_FALSE(is_scattered_wide(map));
  const std::string record = encoded(map);
  MapPlaces places;
  for (size_t bit = 0; bit < record.size() * 8; ++bit) {
    std::string damaged = record;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(decode_places(kKey, damaged, places).ok()) << bit;
  }
  for (size_t length = 0; length < record.size(); ++length) {
    ASSERT_FALSE(decode_places(kKey, record.substr(0, length), places).ok()) << length;
  }
  EXPECT_FALSE(decode_places(kKey, record + '\0', places).ok());
  EXPECT_FALSE(decode_places({kKey.chain, kKey.chunk, 4}, record, places).ok())
      << "under another key";
  EXPECT_FALSE(decode_places({ChainId(1), kKey.chunk, kKey.index}, record, places).ok());
}

TEST(QuarterRecord, is_refused_when_any_bit_is_flipped_or_it_is_cut) {
  engine::SeededRandom random(2);
  for (const uint32_t runs : {8, 100}) {
    const BlockMap map = random_map(random, runs);
    const bool wide = is_scattered_wide(map);
    ASSERT_EQ(wide, runs == 100);
    const std::string record = encoded_quarter(map, 2);
    BlockMap decoded = map;
    for (size_t bit = 0; bit < record.size() * 8; ++bit) {
      std::string damaged = record;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      ASSERT_FALSE(decode_quarter(kKey, 2, damaged, wide, decoded).ok()) << bit;
    }
    for (size_t length = 0; length < record.size(); ++length) {
      ASSERT_FALSE(decode_quarter(kKey, 2, record.substr(0, length), wide, decoded).ok());
    }
    EXPECT_FALSE(decode_quarter(kKey, 1, record, wide, decoded).ok()) << "of another quarter";
    EXPECT_EQ(decode_quarter(kKey, 2, record, !wide, decoded).code(), Code::corrupt);
  }
}

std::string word(uint64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string run(uint64_t first, uint64_t count, uint64_t place) {
  return word(place | first << 40 | (count - 1) << 48);
}

std::string header(uint8_t runs, uint32_t valid_end) {
  std::string text("\x03\0\0", 3);
  text.append(1, static_cast<char>(runs));
  return text.append(reinterpret_cast<const char*>(&valid_end), 4);
}

Code decode(const std::string& content) {
  MapPlaces places;
  return decode_places(kKey, sealed(content), places).code();
}

TEST(MapRecord, is_refused_when_its_content_contradicts_itself) {
  EXPECT_EQ(decode(header(1, 4096) + run(0, 1, 7)), Code::ok);
  EXPECT_EQ(decode(header(0, 4096)), Code::ok);
  EXPECT_EQ(decode(header(0, 4096).substr(0, 7)), Code::corrupt) << "half a header";
  EXPECT_EQ(decode(header(2, 8192) + run(0, 1, 7)), Code::corrupt) << "too short";
  EXPECT_EQ(decode(header(1, 8192) + run(0, 1, 7) + run(1, 1, 9)), Code::corrupt) << "too long";
  EXPECT_EQ(decode(header(0, 0)), Code::corrupt) << "empty";
  EXPECT_EQ(decode(header(0, limits::kMapBytes + 1)), Code::corrupt);
  EXPECT_EQ(decode(header(2, 8192) + run(0, 1, 7) + run(1, 1, 9)), Code::ok);
  EXPECT_EQ(decode(header(2, 8192) + run(0, 1, 7) + run(1, 1, 8)), Code::corrupt) << "one run";
  EXPECT_EQ(decode(header(2, 8192) + run(1, 1, 7) + run(0, 1, 9)), Code::corrupt) << "order";
  EXPECT_EQ(decode(header(2, 8192) + run(0, 2, 7) + run(1, 1, 9)), Code::corrupt) << "overlap";
  EXPECT_EQ(decode(header(1, 4096) + run(0, 2, 7)), Code::corrupt) << "mapped beyond the end";
  EXPECT_EQ(decode(header(1, limits::kMapBytes) + run(1, 256, 7)), Code::corrupt) << "too far";
  std::string many = header(17, limits::kMapBytes);
  for (uint64_t i = 0; i < 17; ++i) many += run(2 * i, 1, 7);
  EXPECT_EQ(decode(many), Code::corrupt) << "a wide one would have been written";
  std::string wide = header(1, 4096) + run(0, 1, 7);
  wide[2] = 1;
  EXPECT_EQ(decode(wide), Code::corrupt) << "wide, with runs";
}

TEST(MapRecord, is_left_to_later_versions_when_it_uses_what_they_know) {
  const std::string good = header(1, 4096) + run(0, 1, 7);
  for (const size_t at : {0, 1}) {  // version, state
    std::string other = good;
    ++other[at];
    EXPECT_EQ(decode(other), Code::wrong_version) << at;
  }
  std::string other = good;
  other[2] = 2;
  EXPECT_EQ(decode(other), Code::wrong_version);
  other = good;
  other[15] = 1;  // what is not used of a run
  EXPECT_EQ(decode(other), Code::wrong_version);
  EXPECT_EQ(decode(header(1, 4096) + run(0, 1, limits::kTargetBlocksMax - 1)), Code::ok);
  EXPECT_EQ(decode(header(1, 4096) + run(0, 1, limits::kTargetBlocksMax)), Code::wrong_version);
  EXPECT_EQ(decode(header(1, 8192) + run(0, 2, limits::kTargetBlocksMax - 1)), Code::wrong_version);
}

Code decode_quarter_of(const std::string& content, bool wide, BlockMap map) {
  return decode_quarter(kKey, 0, sealed(content, encode_quarter_key(kKey, 0)), wide, map).code();
}

TEST(QuarterRecord, is_of_the_blocks_that_its_map_has) {
  BlockMap map;
  map.blocks[0] = {7, 0};
  map.valid_end = 4096;
  const std::string first("\x01\0\x01\0\0\0\0\0", 8);
  const std::string good = first + word(1) + "crcs";
  EXPECT_EQ(decode_quarter_of(good, false, map), Code::ok);
  EXPECT_EQ(decode_quarter_of(first + word(2) + "crcs", false, map), Code::corrupt);
  EXPECT_EQ(decode_quarter_of(first + word(0), false, map), Code::corrupt);
  EXPECT_EQ(decode_quarter_of(good + "crcs", false, map), Code::corrupt);
  for (const size_t at : {0, 1, 2, 3, 4, 7}) {
    std::string other = good;
    other[at] = static_cast<char>(other[at] + 2);
    EXPECT_EQ(decode_quarter_of(other, false, map), Code::wrong_version) << at;
  }
  BlockMap none;
  none.valid_end = 4096;
  std::string wide = good.substr(0, 16) + std::string("\x07\0\0\0\x3f", 5) + "crcs";
  wide[1] = 1;
  EXPECT_EQ(decode_quarter_of(wide, true, none), Code::ok);
  wide[20] = 0x40;
  EXPECT_EQ(decode_quarter_of(wide, true, none), Code::wrong_version) << "beyond 1 PiB";
  wide[20] = 0;
  wide[8] = 2;
  EXPECT_EQ(decode_quarter_of(wide, true, none), Code::corrupt) << "mapped beyond the end";
}

TEST(MapKeys, sort_as_their_chunks_do) {
  const ChainId one(1);
  const MapKey keys[] = {{one, {InodeId(1), 0}, 0},        {one, {InodeId(1), 0}, 63},
                         {one, {InodeId(1), 1}, 0},        {one, {InodeId(1), 256}, 0},
                         {one, {InodeId(2), 0}, 0},        {one, {InodeId(256), 0}, 0},
                         {ChainId(2), {InodeId(1), 0}, 0}, {ChainId(256), {InodeId(0), 0}, 0}};
  for (size_t i = 0; i + 1 < std::size(keys); ++i) {
    EXPECT_LT(as_view(encode_key(keys[i])), as_view(encode_key(keys[i + 1])));
    EXPECT_EQ(decode_key(as_view(encode_key(keys[i]))), keys[i]);
  }
  const EncodedMapKey after = encode_key_after(ChainId{}, InodeId(1));
  EXPECT_LT(as_view(encode_key({ChainId{}, {InodeId(1), UINT32_MAX}, 63})), as_view(after));
  EXPECT_LE(as_view(after), as_view(encode_key({ChainId{}, {InodeId(2), 0}, 0})));
  EXPECT_LT(as_view(encode_key({ChainId{}, {InodeId(UINT64_MAX), 7}, 0})),
            as_view(encode_key_after(ChainId{}, InodeId(UINT64_MAX))));
  EXPECT_EQ(as_view(encode_key_after(ChainId{}, InodeId(UINT64_MAX))),
            as_view(encode_key({one, {}, 0})));
  const MapKey last{ChainId(UINT32_MAX), {InodeId(UINT64_MAX), UINT32_MAX}, 63};
  EXPECT_LT(as_view(encode_key(last)),
            as_view(encode_key_after(ChainId(UINT32_MAX), InodeId(UINT64_MAX))));
}

TEST(MapKeys, are_refused_when_malformed) {
  const EncodedMapKey good = encode_key(kKey);
  std::string key(as_view(good));
  EXPECT_FALSE(decode_key(key.substr(1)));
  EXPECT_FALSE(decode_key(key + "x"));
  EXPECT_FALSE(decode_key("A" + key.substr(1)));
  key[key.size() - 1] = 64;  // a chunk has fewer maps
  EXPECT_FALSE(decode_key(key));
  const EncodedMapKey of_quarter = encode_quarter_key(kKey, 3);
  EXPECT_FALSE(decode_key(as_view(of_quarter)));
  const auto decoded = decode_quarter_key(as_view(of_quarter));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->map, kKey);
  EXPECT_EQ(decoded->quarter, 3u);
  EXPECT_FALSE(decode_quarter_key(as_view(good)));
  EXPECT_EQ(as_view(encode_quarter_key(kKey, 4)),
            as_view(encode_quarter_key({kKey.chain, kKey.chunk, kKey.index + 1}, 0)));
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
  other.replace(other.find("version 4"), 9, "version 9");
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
