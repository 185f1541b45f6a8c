// The words of CUDA that our kernels use, for host code that plays them (testing_gpus.h). Included
// by nothing but sources of kernels that are compiled for the host.
#pragma once

#include "penstock/testing_gpus.h"

#define __global__
#define __device__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline

namespace penstock::test {

struct Place3 {
  uint32_t x, y, z;
};
// One dimension, as our launches have.
inline Place3 thread_index() {
  return {lane_place().thread, 0, 0};
}
inline Place3 block_index() {
  return {lane_place().block, 0, 0};
}
inline Place3 block_shape() {
  return {lane_place().threads, 1, 1};
}
inline Place3 grid_shape() {
  return {lane_place().blocks, 1, 1};
}

}  // namespace penstock::test

#define threadIdx (::penstock::test::thread_index())
#define blockIdx (::penstock::test::block_index())
#define blockDim (::penstock::test::block_shape())
#define gridDim (::penstock::test::grid_shape())

inline bool __all_sync(unsigned, bool vote) {
  return ::penstock::test::meet_warp(vote);
}
inline bool __any_sync(unsigned, bool vote) {
  return !::penstock::test::meet_warp(!vote);
}
inline void __syncwarp(unsigned = 0xffffffff) {
  ::penstock::test::meet_warp(true);
}
inline void __syncthreads() {
  ::penstock::test::meet_block(true);
}
inline int __syncthreads_and(int vote) {
  return ::penstock::test::meet_block(vote != 0) ? 1 : 0;
}
