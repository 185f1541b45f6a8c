#include "penstock/tls/signing.h"

#include <gtest/gtest.h>
#include <string_view>

namespace penstock::tls {
namespace {

Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Signing, is_told_by_the_public_half_alone) {
  const auto key = SigningKey::make();
  const auto other = SigningKey::make();
  ASSERT_TRUE(key && other);
  EXPECT_NE((*key)->verifying(), (*other)->verifying());
  const auto signature = (*key)->sign(bytes_of("what is signed"));
  ASSERT_TRUE(signature);
  EXPECT_TRUE(is_signed(bytes_of("what is signed"), *signature, (*key)->verifying()));
  EXPECT_FALSE(is_signed(bytes_of("what is signe"), *signature, (*key)->verifying()));
  EXPECT_FALSE(is_signed(bytes_of("What is signed"), *signature, (*key)->verifying()));
  EXPECT_FALSE(is_signed(bytes_of("what is signed"), *signature, (*other)->verifying()));
  EXPECT_FALSE(is_signed(bytes_of("what is signed"), *signature, VerifyingKey{}));
  for (size_t i = 0; i < signature->size(); ++i) {
    Signature changed = *signature;
    changed[i] ^= 1;
    EXPECT_FALSE(is_signed(bytes_of("what is signed"), changed, (*key)->verifying())) << i;
  }
}

}  // namespace
}  // namespace penstock::tls
