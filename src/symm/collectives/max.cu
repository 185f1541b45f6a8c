#include "collective_kernels.cuh"

PENSTOCK_REDUCE(max_s8, Max, int8_t)
PENSTOCK_REDUCE(max_s16, Max, int16_t)
PENSTOCK_REDUCE(max_s32, Max, int32_t)
PENSTOCK_REDUCE(max_s64, Max, int64_t)
PENSTOCK_REDUCE(max_u8, Max, uint8_t)
PENSTOCK_REDUCE(max_u16, Max, uint16_t)
PENSTOCK_REDUCE(max_u32, Max, uint32_t)
PENSTOCK_REDUCE(max_u64, Max, uint64_t)
PENSTOCK_REDUCE(max_f16, Max, __half)
PENSTOCK_REDUCE(max_bf16, Max, __nv_bfloat16)
PENSTOCK_REDUCE(max_f32, Max, float)
PENSTOCK_REDUCE(max_f64, Max, double)
