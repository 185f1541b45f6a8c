// CUDA's narrow floating-point types, for kernels that the host plays (host_kernels.cc).
#pragma once

#include "penstock_device/symm/reduce.h"

#include <cstdint>
#include <cstring>

struct __half {
  _Float16 value;
};
struct __nv_bfloat16 {
  uint16_t bits;
};

namespace penstock::device {

// As narrow_floats.h has them.
template <>
struct Combined<__half> {
  using type = float;
  static float widen(__half value) { return static_cast<float>(value.value); }
  static __half narrow(float value) { return {static_cast<_Float16>(value)}; }
};
template <>
struct Combined<__nv_bfloat16> {
  using type = float;
  static float widen(__nv_bfloat16 value) {
    const uint32_t bits = uint32_t{value.bits} << 16;
    float out = 0;
    std::memcpy(&out, &bits, sizeof out);
    return out;
  }
  // To the nearest, and of two to the even one. Not of what is no number.
  static __nv_bfloat16 narrow(float value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
  }
};

}  // namespace penstock::device
