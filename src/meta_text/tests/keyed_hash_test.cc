// The hash, by values that its authors published for the key 00 01 ... 0f.
#include "../keyed_hash.h"

#include <gtest/gtest.h>

namespace penstock::meta_text {
namespace {

TEST(KeyedHash, is_the_published_one) {
  const KeyedHash hash(0x0706050403020100, 0x0f0e0d0c0b0a0908);
  const auto value = [](uint64_t high, uint64_t low) { return KeyedHash::Value{high} << 64 | low; };
  EXPECT_TRUE(hash.of("") == value(0x930255c71472f66d, 0xe6a825ba047f81a3));
  EXPECT_TRUE(hash.of(std::string_view("\0", 1)) == value(0x45fc229b11597634, 0x44af996bd8c187da));
}

TEST(KeyedHash, depends_on_every_byte_and_on_the_key) {
  engine::SeededRandom random(1);
  const KeyedHash hash(random), other(random);
  const std::string text = "the name of a file, of more than eight bytes";
  EXPECT_FALSE(hash.of(text) == other.of(text));
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(hash.of(text) == hash.of(changed)) << at;
    EXPECT_FALSE(hash.of(text) == hash.of(text.substr(0, at))) << at;
  }
  EXPECT_FALSE(hash.of(std::string(1, '\0')) == hash.of(std::string(2, '\0')));
}

}  // namespace
}  // namespace penstock::meta_text
