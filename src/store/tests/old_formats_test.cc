#include "old_format.h"

#include <gtest/gtest.h>

#include "penstock/engine.h"

namespace penstock::store {
namespace {

const OldMapKey kOldKey{ChainId(3), {InodeId(77), 5}, 6};

// Places that format 1 has room for.
OldMap random_old_map(engine::Random& random) {
  OldMap map;
  uint32_t last = 0;
  bool any = false;
  for (uint32_t i = 0; i < kOldMapBlocks; ++i) {
    if (random.chance(1, 3)) continue;
    map.blocks[i] = {random.below(UINT32_MAX), static_cast<uint32_t>(random.next())};
    last = i;
    any = true;
  }
  const uint64_t least = any ? last * limits::kBlockBytes + 1 : 1;
  map.valid_end = static_cast<uint32_t>(least + random.below(kOldMapBytes - least + 1));
  return map;
}

TEST(OldMaps, are_read_as_they_were_written) {
  engine::SeededRandom random(3);
  for (int i = 0; i < 200; ++i) {
    const OldMap map = random_old_map(random);
    const std::string key = encode_old_key(kOldKey, 1);
    const std::string first = encode_old_map_1(key, map);
    const std::string second = encode_old_map(key, map);
    OldMap decoded;
    ASSERT_TRUE(decode_old_map_1(key, first, decoded).ok());
    EXPECT_EQ(decoded, map);
    ASSERT_TRUE(decode_old_map(key, second, decoded).ok());
    EXPECT_EQ(decoded, map);
    EXPECT_EQ(decode_old_map(key, first, decoded).code(), Code::wrong_version);
    EXPECT_EQ(decode_old_map_1(key, second, decoded).code(), Code::wrong_version);
    for (std::string damaged : {first, second}) {
      const bool is_first = damaged == first;
      damaged[random.below(damaged.size())] ^= 1;
      const auto decode = is_first ? decode_old_map_1 : decode_old_map;
      EXPECT_FALSE(decode(key, damaged, decoded).ok());
      EXPECT_FALSE(decode(key, damaged.substr(0, random.below(damaged.size())), decoded).ok());
    }
  }
}

TEST(OldMaps, have_the_form_of_format_2) {
  OldMap map;
  map.blocks[1] = {0x01020304, 0xa0b0c0d0};
  map.valid_end = 8192;
  const std::string record = encode_old_map("key", map);
  const std::string expected(
      "\x02\x00\x01\x00\x00\x00\x00\x00"
      "\x00\x00\x00\x00\x00\x00\x00\x00"
      "\x00\x20\x00\x00\x02\x00\x00\x00"
      "\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00"
      "\x04\x03\x02\x01\x00\x00\x00\x00\xd0\xc0\xb0\xa0",
      48);
  EXPECT_EQ(record.substr(0, 48), expected);
  EXPECT_EQ(record.size(), 52u);
}

TEST(OldMaps, of_four_are_one) {
  engine::SeededRandom random(4);
  for (int i = 0; i < 50; ++i) {
    BlockMap map;
    std::array<OldMap, kOldMaps> parts;
    for (uint32_t part = 0; part < kOldMaps; ++part) {
      if (random.chance(1, 2)) parts[part] = random_old_map(random);
      merge(parts[part], part, map);
    }
    uint32_t last = 0;
    for (uint32_t part = 0; part < kOldMaps; ++part) {
      if (!parts[part].empty()) last = part;
      const OldMap back = split(map, part);
      EXPECT_EQ(back.blocks, parts[part].blocks);
    }
    if (map.empty()) continue;
    EXPECT_EQ(split(map, last).valid_end, parts[last].valid_end);
    for (uint32_t part = last + 1; part < kOldMaps; ++part) {
      EXPECT_TRUE(split(map, part).empty());
    }
    BlockMap again;
    for (uint32_t part = 0; part < kOldMaps; ++part) merge(split(map, part), part, again);
    EXPECT_EQ(again, map);
  }
}

TEST(OldMaps, of_formats_1_and_2_get_a_chain) {
  for (const uint32_t format : {1u, 2u}) {
    const std::string old = encode_old_key(kOldKey, format);
    EXPECT_EQ(old.size(), 15u);
    const auto key = decode_old_key(old, format, ChainId(9));
    ASSERT_TRUE(key);
    EXPECT_EQ(key->chain, ChainId(9));
    EXPECT_EQ(key->chunk, kOldKey.chunk);
    EXPECT_EQ(key->index, kOldKey.index);
    EXPECT_FALSE(decode_old_key(old, 3, ChainId(9))) << "format 3 has none";
    EXPECT_FALSE(decode_old_key(old.substr(1), format, ChainId(9)));
  }
  const std::string third = encode_old_key(kOldKey, 3);
  EXPECT_EQ(third.size(), 19u);
  for (const uint32_t format : {1u, 2u, 3u}) {
    const auto key = decode_old_key(third, format, ChainId(9));
    ASSERT_TRUE(key) << "an interrupted conversion leaves both";
    EXPECT_EQ(key->chain, kOldKey.chain);
    EXPECT_EQ(key->of_today(), (MapKey{kOldKey.chain, kOldKey.chunk, 1}));
  }
  EXPECT_FALSE(decode_old_key(as_view(encode_key({ChainId(3), kOldKey.chunk, 6})), 3, ChainId(9)));
}

}  // namespace
}  // namespace penstock::store
