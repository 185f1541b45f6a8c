// PEs in a row with equal steps between them, as teams and active sets are made of.
#pragma once

#include <cstdint>
#include <optional>

namespace penstock::symm {

// Numbers are of PEs in the group.
struct PeSet {
  uint32_t start = 0;
  int64_t stride = 1;  // not 0, also of one PE; below 0: from high numbers to low ones
  uint32_t size = 1;

  uint32_t pe(uint32_t index) const { return static_cast<uint32_t>(start + index * stride); }

  // The place of a PE in the row; none when it is not in it.
  std::optional<uint32_t> index_of(uint32_t pe) const {
    const int64_t steps = (int64_t{pe} - start) / stride;
    if (start + steps * stride != pe || steps < 0 || steps >= size) return std::nullopt;
    return static_cast<uint32_t>(steps);
  }

  // What a row within this one is in the group; none when it reaches beyond.
  std::optional<PeSet> part(const PeSet& inner) const {
    if (inner.size == 0 || inner.stride == 0 || inner.start >= size) return std::nullopt;
    // The step of one PE says nothing, and may be of any size.
    if (inner.size == 1) return PeSet{pe(inner.start), 1, 1};
    if (inner.stride > size || inner.stride < -int64_t{size}) return std::nullopt;
    const int64_t last = inner.start + int64_t{inner.size - 1} * inner.stride;
    if (last < 0 || last >= size) return std::nullopt;
    return PeSet{pe(inner.start), stride * inner.stride, inner.size};
  }

  friend bool operator==(const PeSet&, const PeSet&) = default;
};

}  // namespace penstock::symm
