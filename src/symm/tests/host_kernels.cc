// The kernels of this library, for simulated GPUs. Each kernel stands here.

// The words of CUDA come before who uses them.
// clang-format off
#include "penstock_testing_gpus_cuda.h"
#include "host_floats.h"
#include "../kernels.cu"
#include "../collectives/bits.cu"
#include "../collectives/bytes.cu"
#include "../collectives/far.cu"
#include "../collectives/max.cu"
#include "../collectives/min.cu"
#include "../collectives/prod.cu"
#include "../collectives/sum.cu"
// clang-format on

PENSTOCK_HOST_KERNEL(penstock_symm_barrier);
PENSTOCK_HOST_KERNEL(penstock_symm_signal);
PENSTOCK_HOST_KERNEL(penstock_symm_store);
PENSTOCK_HOST_KERNEL(penstock_symm_wait_for_words);
PENSTOCK_HOST_KERNEL(penstock_symm_copy_strided);
PENSTOCK_HOST_KERNEL(penstock_symm_change);
PENSTOCK_HOST_KERNEL(penstock_symm_put_with_signal);
PENSTOCK_HOST_KERNEL(penstock_symm_far_changes);
PENSTOCK_HOST_KERNEL(penstock_symm_put_far);
PENSTOCK_HOST_KERNEL(penstock_symm_get_far);
PENSTOCK_HOST_KERNEL(penstock_symm_row_far);
PENSTOCK_HOST_KERNEL(penstock_symm_store_far);
PENSTOCK_HOST_KERNEL(penstock_symm_change_far);
PENSTOCK_HOST_KERNEL(penstock_symm_quiet_far);

PENSTOCK_HOST_KERNEL(penstock_symm_bytes);
PENSTOCK_HOST_KERNEL(penstock_symm_marked_bytes);
PENSTOCK_HOST_KERNEL(penstock_symm_far_bytes);
PENSTOCK_HOST_KERNEL(penstock_symm_far_reduce);

#define FOR_UNSIGNED_AND_FLOATS(COMBINE)                \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_u8);   \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_u16);  \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_u32);  \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_u64);  \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_f16);  \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_bf16); \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_f32);  \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_f64)
#define FOR_SIGNED(COMBINE)                            \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_s8);  \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_s16); \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_s32); \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_s64)
#define FOR_BITS(COMBINE)                             \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_u8); \
  PENSTOCK_HOST_KERNEL(penstock_symm_##COMBINE##_u32)

FOR_UNSIGNED_AND_FLOATS(sum);
FOR_UNSIGNED_AND_FLOATS(prod);
FOR_UNSIGNED_AND_FLOATS(min);
FOR_UNSIGNED_AND_FLOATS(max);
FOR_SIGNED(min);
FOR_SIGNED(max);
FOR_BITS(and);
FOR_BITS(or);
FOR_BITS(xor);
