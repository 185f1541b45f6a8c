// Which GPUs of a node do not reach one another's memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "penstock/symm/pe_set.h"

namespace penstock::symm {

// PEs by their numbers in a group of 64 at most. Pairs have no direction: where one PE does not
// reach the other, neither counts as reaching it.
class DeviceAccess {
 public:
  struct Pair {
    uint32_t first;
    uint32_t second;  // the higher one
  };

  // On one node, and without access.
  void part(uint32_t one, uint32_t other) {
    apart_[one] |= uint64_t{1} << other;
    apart_[other] |= uint64_t{1} << one;
  }
  bool are_apart(uint32_t one, uint32_t other) const { return (apart_[one] >> other & 1) != 0; }
  bool has_any() const;
  std::vector<Pair> pairs() const;

  // Whether any two of these are apart.
  bool has_any_in(const PeSet& set) const;
  // Of a node's PEs (bit by bit) those that `me` shares memory with: a row of PEs of which each
  // reaches each, and no other one of the node; else `me` alone. They find the same.
  PeSet sharing(uint64_t node, uint32_t me) const;

  friend bool operator==(const DeviceAccess&, const DeviceAccess&) = default;

 private:
  std::array<uint64_t, 64> apart_{};  // by PE, bits of the others
};

}  // namespace penstock::symm
