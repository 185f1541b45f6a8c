// Integers of both signs have the same bits for it.
#include "collective_kernels.cuh"

PENSTOCK_REDUCE(sum_u8, Sum, uint8_t)
PENSTOCK_REDUCE(sum_u16, Sum, uint16_t)
PENSTOCK_REDUCE(sum_u32, Sum, uint32_t)
PENSTOCK_REDUCE(sum_u64, Sum, uint64_t)
PENSTOCK_REDUCE(sum_f16, Sum, __half)
PENSTOCK_REDUCE(sum_bf16, Sum, __nv_bfloat16)
PENSTOCK_REDUCE(sum_f32, Sum, float)
PENSTOCK_REDUCE(sum_f64, Sum, double)
