// What the kernels of collective operations on streams have in common.
#pragma once

#include "penstock_device/symm/grid_reduce.h"
#include "penstock_device/symm/narrow_floats.h"

// One for each way of combining and type.
#define PENSTOCK_REDUCE(NAME, OP, TYPE)                                               \
  extern "C" __global__ void __launch_bounds__(penstock::device::kGridThreads)        \
      penstock_symm_##NAME(const __grid_constant__ penstock::device::SymmState state, \
                           const __grid_constant__ penstock::device::GridWork work) { \
    using namespace penstock::device;                                                 \
    const GridBlock at = grid_block(state, work, blockIdx.x);                         \
    if (!grid_reduce<OP, TYPE>(at) && Block::rank() == 0) report_end(state);          \
  }
