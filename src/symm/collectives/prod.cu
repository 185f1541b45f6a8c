// Integers of both signs have the same bits for it.
#include "collective_kernels.cuh"

PENSTOCK_REDUCE(prod_u8, Prod, uint8_t)
PENSTOCK_REDUCE(prod_u16, Prod, uint16_t)
PENSTOCK_REDUCE(prod_u32, Prod, uint32_t)
PENSTOCK_REDUCE(prod_u64, Prod, uint64_t)
PENSTOCK_REDUCE(prod_f16, Prod, __half)
PENSTOCK_REDUCE(prod_bf16, Prod, __nv_bfloat16)
PENSTOCK_REDUCE(prod_f32, Prod, float)
PENSTOCK_REDUCE(prod_f64, Prod, double)
