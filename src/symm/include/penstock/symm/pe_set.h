// PEs in a row with equal steps between them, as teams and active sets are made of.
#pragma once

#include <cstdint>
#include <optional>

namespace penstock::symm {

// Numbers are of PEs in the group.
struct PeSet {
  uint32_t start = 0;
  uint32_t stride = 1;  // at least 1, also of one PE
  uint32_t size = 1;

  uint32_t pe(uint32_t index) const { return start + index * stride; }

  // The place of a PE in the row; none when it is not in it.
  std::optional<uint32_t> index_of(uint32_t pe) const {
    if (pe < start || (pe - start) % stride != 0) return std::nullopt;
    const uint32_t index = (pe - start) / stride;
    return index < size ? std::optional(index) : std::nullopt;
  }

  // What a row within this one is in the group; none when it reaches beyond.
  std::optional<PeSet> part(const PeSet& inner) const {
    if (inner.size == 0 || inner.stride == 0) return std::nullopt;
    const uint64_t last = inner.start + uint64_t{inner.size - 1} * inner.stride;
    if (last >= size) return std::nullopt;
    // The step of one PE says nothing, and may be of any size.
    const uint64_t step = inner.size > 1 ? uint64_t{stride} * inner.stride : 1;
    return PeSet{pe(inner.start), static_cast<uint32_t>(step), inner.size};
  }

  friend bool operator==(const PeSet&, const PeSet&) = default;
};

}  // namespace penstock::symm
