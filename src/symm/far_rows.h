// What far PEs may name: words that change, and rows of elements. Of foreign input, so nothing
// overflows.
#pragma once

#include "penstock_device/symm/far_layout.h"

namespace penstock::symm {

inline bool is_word_change(uint8_t change, uint32_t width_log2) {
  if (change > static_cast<uint8_t>(device::FarChange::bit_xor) || width_log2 > 3) return false;
  const bool is_plain = change <= static_cast<uint8_t>(device::FarChange::set);
  return is_plain || width_log2 >= 2;
}

// Whether elements with this stride fit into so many bytes. Nothing overflows.
inline bool row_fits(uint64_t count, uint64_t stride, uint32_t width_log2, uint64_t bytes) {
  const uint64_t most = bytes >> width_log2;
  if (count == 0 || most == 0) return false;
  return stride == 0 || count - 1 <= (most - 1) / stride;
}

inline uint64_t row_bytes(uint64_t count, uint64_t stride, uint32_t width_log2) {
  return ((count - 1) * stride + 1) << width_log2;
}

}  // namespace penstock::symm
