// Signatures by Ed25519: who has the key signs, and who has its public half can tell.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "penstock/base.h"

namespace penstock::tls {

using VerifyingKey = std::array<uint8_t, 32>;
using Signature = std::array<uint8_t, 64>;

// Thread safe. In memory only: it ends with the object.
class SigningKey {
 public:
  // A new one. Fails where OpenSSL has no random bytes, or no memory.
  static Outcome<std::unique_ptr<SigningKey>> make();
  virtual ~SigningKey() = default;

  virtual const VerifyingKey& verifying() const = 0;
  // Fails where OpenSSL has no memory.
  virtual Result<Signature> sign(Bytes bytes) const = 0;
};

// Some 0.13 ms. False also for a key that cannot be one.
bool is_signed(Bytes bytes, const Signature& signature, const VerifyingKey& by);

}  // namespace penstock::tls
