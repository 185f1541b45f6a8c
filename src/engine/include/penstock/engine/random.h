// Randomness as protocol code sees it. Distributions are stated here and not taken from the
// standard library, whose results differ between implementations.
#pragma once

#include <cstdint>

namespace penstock::engine {

// Not thread safe: each loop has its own.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t next() = 0;

  // Uniform in [0, bound), bound > 0: the high half of the 128-bit product (Lemire 2019, without
  // the rejection step; the bias is below bound / 2^64).
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  // True with probability numerator / denominator.
  bool chance(uint64_t numerator, uint64_t denominator) { return below(denominator) < numerator; }
};

// xoshiro256** (Blackman and Vigna 2018), seeded through SplitMix64.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed);
  uint64_t next() override;

 private:
  uint64_t state_[4];
};

// A seed from the operating system, for loops of real nodes.
uint64_t system_seed();

}  // namespace penstock::engine
