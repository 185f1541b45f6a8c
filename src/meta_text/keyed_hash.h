// Sums of keyed hashes, by which sets are compared without a table of what is in them.
//
// The hash is SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein 2012). Who does not
// know the key cannot find other sets with the same sum, so each comparison takes a key of its own.
#pragma once

#include <cstdint>
#include <string_view>

#include "penstock/engine.h"

namespace penstock::meta_text {

class KeyedHash {
 public:
  using Value = unsigned __int128;  // sums are modulo 2^128

  explicit KeyedHash(engine::Random& random) : KeyedHash(random.next(), random.next()) {}
  KeyedHash(uint64_t key_low, uint64_t key_high) : low_(key_low), high_(key_high) {}

  Value of(std::string_view bytes) const;

 private:
  uint64_t low_;
  uint64_t high_;
};

}  // namespace penstock::meta_text
