#include "penstock/sessions/token.h"

#include <cstring>
#include <memory>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

namespace penstock::sessions {
namespace {

// libcrypto's SipHash-2-4, from a library context of its own: what an openssl.cnf of the machine
// says about providers does not matter. Never freed.
EVP_MAC* siphash() {
  static EVP_MAC* const mac = EVP_MAC_fetch(OSSL_LIB_CTX_new(), OSSL_MAC_NAME_SIPHASH, nullptr);
  ASSERT(mac != nullptr);
  return mac;
}

struct TokenLayout {
  uint64_t inode;
  uint32_t access;
  uint32_t uid;
  uint64_t mac[2];
};
static_assert(sizeof(TokenLayout) == 32);
constexpr size_t kClaimBytes = offsetof(TokenLayout, mac);

}  // namespace

std::array<uint64_t, 2> siphash128(Bytes message, const std::array<uint64_t, 2>& key) {
  const auto* const key_bytes = reinterpret_cast<const unsigned char*>(key.data());
  std::array<uint64_t, 2> sum{};
  size_t size = sizeof sum;
  const OSSL_PARAM parameters[] = {OSSL_PARAM_size_t(OSSL_MAC_PARAM_SIZE, &size), OSSL_PARAM_END};
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(
      EVP_MAC_CTX_new(siphash()), &EVP_MAC_CTX_free);
  size_t written = 0;
  const bool done =
      context != nullptr && EVP_MAC_init(context.get(), key_bytes, sizeof key, parameters) == 1 &&
      EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(message.data()),
                     message.size()) == 1 &&
      EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(sum.data()), &written,
                    sizeof sum) == 1;
  // Without a sum no token could be told from a forged one.
  ASSERT(done && written == sizeof sum);
  return sum;
}

std::string TokenMaker::make(const TokenClaim& claim) const {
  TokenLayout layout{claim.inode.value, claim.access, claim.uid, {}};
  const auto mac = siphash128(std::as_bytes(std::span(&layout, 1)).first(kClaimBytes), key_);
  layout.mac[0] = mac[0];
  layout.mac[1] = mac[1];
  return std::string(reinterpret_cast<const char*>(&layout), sizeof layout);
}

Result<TokenClaim> TokenMaker::verify(std::string_view token, uint32_t uid) const {
  TokenLayout layout;
  if (token.size() != sizeof layout) return Code::access_denied;
  std::memcpy(&layout, token.data(), sizeof layout);
  const auto mac = siphash128(std::as_bytes(std::span(&layout, 1)).first(kClaimBytes), key_);
  // Without an early end, so that time tells nothing about the bytes.
  const uint64_t difference = (mac[0] ^ layout.mac[0]) | (mac[1] ^ layout.mac[1]);
  if (difference != 0 || layout.uid != uid) return Code::access_denied;
  return TokenClaim{InodeId(layout.inode), layout.access, layout.uid};
}

}  // namespace penstock::sessions
