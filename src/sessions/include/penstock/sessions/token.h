// Tokens with which an application opens its files again after the death of an agent: the proof
// that an agent of this store once gave this user this access to this inode.
#pragma once

#include <array>
#include <string>

#include "penstock/base.h"

namespace penstock::sessions {

// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein 2012): a keyed function whose values
// cannot be produced without the key. Computed by libcrypto.
std::array<uint64_t, 2> siphash128(Bytes message, const std::array<uint64_t, 2>& key);

struct TokenClaim {
  InodeId inode;
  uint32_t access = 0;  // wire::kOpenRead, wire::kOpenWrite
  uint32_t uid = 0;
};

// The key is a secret of the store.
class TokenMaker {
 public:
  explicit TokenMaker(std::array<uint64_t, 2> key) : key_(key) {}
  std::string make(const TokenClaim& claim) const;
  // access_denied unless `token` is what make() returned for some claim of this user.
  Result<TokenClaim> verify(std::string_view token, uint32_t uid) const;

 private:
  std::array<uint64_t, 2> key_;
};

}  // namespace penstock::sessions
