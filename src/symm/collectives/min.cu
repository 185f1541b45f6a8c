#include "collective_kernels.cuh"

PENSTOCK_REDUCE(min_s8, Min, int8_t)
PENSTOCK_REDUCE(min_s16, Min, int16_t)
PENSTOCK_REDUCE(min_s32, Min, int32_t)
PENSTOCK_REDUCE(min_s64, Min, int64_t)
PENSTOCK_REDUCE(min_u8, Min, uint8_t)
PENSTOCK_REDUCE(min_u16, Min, uint16_t)
PENSTOCK_REDUCE(min_u32, Min, uint32_t)
PENSTOCK_REDUCE(min_u64, Min, uint64_t)
PENSTOCK_REDUCE(min_f16, Min, __half)
PENSTOCK_REDUCE(min_bf16, Min, __nv_bfloat16)
PENSTOCK_REDUCE(min_f32, Min, float)
PENSTOCK_REDUCE(min_f64, Min, double)
