#include "penstock/sessions/token.h"

#include <bit>
#include <cstring>

namespace penstock::sessions {
namespace {

struct Sip {
  uint64_t v0, v1, v2, v3;

  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }
  void absorb(uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
  uint64_t sum() const { return v0 ^ v1 ^ v2 ^ v3; }
};

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
  Sip sip{0x736f6d6570736575ULL ^ key[0], 0x646f72616e646f6dULL ^ key[1] ^ 0xee,
          0x6c7967656e657261ULL ^ key[0], 0x7465646279746573ULL ^ key[1]};
  size_t at = 0;
  for (; at + 8 <= message.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, message.data() + at, sizeof word);
    sip.absorb(word);
  }
  uint64_t last = static_cast<uint64_t>(message.size()) << 56;
  for (size_t i = 0; at + i < message.size(); ++i) {
    last |= static_cast<uint64_t>(message[at + i]) << (8 * i);
  }
  sip.absorb(last);
  sip.v2 ^= 0xee;
  sip.rounds(4);
  const uint64_t first = sip.sum();
  sip.v1 ^= 0xdd;
  sip.rounds(4);
  return {first, sip.sum()};
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
