#include "penstock/sessions/token.h"

#include <cstring>
#include <gtest/gtest.h>

namespace penstock::sessions {
namespace {

constexpr std::array<uint64_t, 2> kKey = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};

TEST(Siphash, matches_the_published_vectors) {
  // The first vectors of the reference's 128-bit variant: key 00..0f, messages 00..(n-1).
  std::array<std::byte, 8> message;
  for (size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(i);
  const auto bytes = [](std::array<uint64_t, 2> value) {
    std::array<uint8_t, 16> out;
    std::memcpy(out.data(), value.data(), out.size());
    return out;
  };
  const std::array<uint8_t, 16> empty = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                         0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
  const std::array<uint8_t, 16> one = {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44,
                                       0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45};
  EXPECT_EQ(bytes(siphash128({}, kKey)), empty);
  EXPECT_EQ(bytes(siphash128(Bytes(message).first(1), kKey)), one);
}

TEST(Token, is_accepted_from_the_user_it_was_made_for_and_nobody_else) {
  const TokenMaker maker(kKey);
  const std::string token = maker.make({InodeId(42), 3, 1000});
  const Result<TokenClaim> claim = maker.verify(token, 1000);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->inode, InodeId(42));
  EXPECT_EQ(claim->access, 3u);
  EXPECT_FALSE(maker.verify(token, 1001));
  EXPECT_FALSE(maker.verify(token, 0));
  EXPECT_FALSE(TokenMaker({1, 2}).verify(token, 1000));
}

TEST(Token, is_refused_with_any_byte_changed) {
  const TokenMaker maker(kKey);
  const std::string token = maker.make({InodeId(42), 1, 1000});
  for (size_t i = 0; i < token.size(); ++i) {
    std::string forged = token;
    forged[i] = static_cast<char>(forged[i] ^ 1);
    EXPECT_FALSE(maker.verify(forged, 1000)) << "byte " << i;
  }
  EXPECT_FALSE(maker.verify(token.substr(1), 1000));
  EXPECT_FALSE(maker.verify(token + "x", 1000));
}

}  // namespace
}  // namespace penstock::sessions
