// Broadcast, fcollect and alltoall on streams.
#include "collective_kernels.cuh"

namespace {
using namespace penstock::device;
}

// Two kernels, as few bytes want one that begins at once.
extern "C" __global__ void __launch_bounds__(kGridThreads)
    penstock_symm_marked_bytes(const __grid_constant__ SymmState state,
                               const __grid_constant__ GridWork work) {
  const GridBlock at = grid_block(state, work, blockIdx.x);
  if (!marked_bytes(at) && Block::rank() == 0) report_end(state);
}

extern "C" __global__ void __launch_bounds__(kGridThreads)
    penstock_symm_bytes(const __grid_constant__ SymmState state,
                        const __grid_constant__ GridWork work) {
  const GridBlock at = grid_block(state, work, blockIdx.x);
  if (at.block >= work.blocks) {
    grid_copy_own(at, {at.block - work.blocks, gridDim.x - work.blocks});
  } else if (!grid_bytes(at) && Block::rank() == 0) {
    report_end(state);
  }
}
