// Collective operations on streams where some members of the team are far to each other: loaded
// only where there are such.
#include "penstock_device/symm/far_grid.h"
#include "penstock_device/symm/narrow_floats.h"

namespace {

using namespace penstock::device;

template <class Op>
__device__ void combine_integers(FarElement element, const FarPieces& pieces) {
  switch (element) {
    case FarElement::u8:
      return combine_landed<Op, uint8_t>(pieces);
    case FarElement::u16:
      return combine_landed<Op, uint16_t>(pieces);
    case FarElement::u32:
      return combine_landed<Op, uint32_t>(pieces);
    default:
      return combine_landed<Op, uint64_t>(pieces);
  }
}

template <class Op>
__device__ void combine_signed(FarElement element, const FarPieces& pieces) {
  switch (element) {
    case FarElement::s8:
      return combine_landed<Op, int8_t>(pieces);
    case FarElement::s16:
      return combine_landed<Op, int16_t>(pieces);
    case FarElement::s32:
      return combine_landed<Op, int32_t>(pieces);
    default:
      return combine_landed<Op, int64_t>(pieces);
  }
}

template <class Op>
__device__ void combine_unsigned(FarElement element, const FarPieces& pieces) {
  switch (element) {
    case FarElement::f16:
      return combine_landed<Op, __half>(pieces);
    case FarElement::bf16:
      return combine_landed<Op, __nv_bfloat16>(pieces);
    case FarElement::f32:
      return combine_landed<Op, float>(pieces);
    case FarElement::f64:
      return combine_landed<Op, double>(pieces);
    default:
      return combine_integers<Op>(element, pieces);
  }
}

template <class Op>
__device__ void combine_all(FarElement element, const FarPieces& pieces) {
  if (element < FarElement::u8) return combine_signed<Op>(element, pieces);
  return combine_unsigned<Op>(element, pieces);
}

// In words where the program's are whole ones, else in bytes.
template <class Op>
__device__ void combine_bits(FarElement element, const FarPieces& pieces) {
  if (element == FarElement::u32) return combine_landed<Op, uint32_t>(pieces);
  return combine_landed<Op, uint8_t>(pieces);
}

// Integers of both signs have the same bits for sums and products: the host says unsigned ones.
__device__ void combine_by(FarCombine combine, FarElement element, const FarPieces& pieces) {
  switch (combine) {
    case FarCombine::sum:
      return combine_unsigned<Sum>(element, pieces);
    case FarCombine::prod:
      return combine_unsigned<Prod>(element, pieces);
    case FarCombine::min:
      return combine_all<Min>(element, pieces);
    case FarCombine::max:
      return combine_all<Max>(element, pieces);
    case FarCombine::bit_and:
      return combine_bits<And>(element, pieces);
    case FarCombine::bit_or:
      return combine_bits<Or>(element, pieces);
    default:
      return combine_bits<Xor>(element, pieces);
  }
}

}  // namespace

// One block each.
extern "C" __global__ void __launch_bounds__(kGridThreads)
    penstock_symm_far_bytes(const __grid_constant__ SymmState state,
                            const __grid_constant__ FarWork work) {
  if (!far_bytes(far_block(state, work)) && Block::rank() == 0) report_end(state);
}

extern "C" __global__ void __launch_bounds__(kGridThreads)
    penstock_symm_far_reduce(const __grid_constant__ SymmState state,
                             const __grid_constant__ FarWork work) {
  const auto combine = static_cast<FarCombine>(work.combine);
  const auto element = static_cast<FarElement>(work.element);
  const bool come = far_reduce(far_block(state, work), [&](const FarPieces& pieces) {
    combine_by(combine, element, pieces);
  });
  if (!come && Block::rank() == 0) report_end(state);
}
