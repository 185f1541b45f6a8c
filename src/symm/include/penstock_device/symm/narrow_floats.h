// How reductions combine CUDA's narrow floating-point types. Empty for other compilers.
#pragma once

#include "penstock_device/symm/reduce.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace penstock::device {

// Sums of narrow numbers are made in float, and rounded once.
template <>
struct Combined<__half> {
  using type = float;
  static PENSTOCK_DEVICE float widen(__half value) { return __half2float(value); }
  static PENSTOCK_DEVICE __half narrow(float value) { return __float2half_rn(value); }
};
template <>
struct Combined<__nv_bfloat16> {
  using type = float;
  static PENSTOCK_DEVICE float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  static PENSTOCK_DEVICE __nv_bfloat16 narrow(float value) { return __float2bfloat16_rn(value); }
};

}  // namespace penstock::device
#endif
