// Kernels compiled for the host, by their names.
//
// A source of kernels is compiled once more as host code, where a few words of CUDA stand for what
// lanes ask of this library:
//
//   #include "penstock/testing_gpus.h"
//   #include "penstock_testing_gpus_cuda.h"   // __global__, threadIdx, __syncthreads() and so on
//   #include "kernels.cu"
//   PENSTOCK_HOST_KERNEL(penstock_symm_barrier);
//
// Memory is reached by symm's device layer (host_primitives.h), or directly.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>

namespace penstock::test {

// What each lane of a launch runs: the kernel with copies of its arguments.
using BoundKernel = std::function<void()>;
// `arguments`: addresses of each, as launches have them.
using HostKernel = BoundKernel (*)(void* const* arguments);

// Before main(), by PENSTOCK_HOST_KERNEL. `name` lives for ever.
bool add_host_kernel(const char* name, HostKernel kernel);
// Null: it has no version for the host.
HostKernel find_host_kernel(std::string_view name);

template <class... Argument, size_t... kIndex>
BoundKernel bind_kernel(void (*kernel)(Argument...), void* const* arguments,
                        std::index_sequence<kIndex...>) {
  return [kernel, copies = std::tuple<std::remove_cvref_t<Argument>...>(
                      *static_cast<const std::remove_cvref_t<Argument>*>(arguments[kIndex])...)] {
    std::apply(kernel, copies);
  };
}
template <class... Argument>
BoundKernel bind_kernel(void (*kernel)(Argument...), void* const* arguments) {
  return bind_kernel(kernel, arguments, std::index_sequence_for<Argument...>{});
}
template <auto kKernel>
BoundKernel bind_host_kernel(void* const* arguments) {
  return bind_kernel(kKernel, arguments);
}

#define PENSTOCK_HOST_KERNEL(name)                             \
  [[maybe_unused]] static const bool name##_has_host_version = \
      ::penstock::test::add_host_kernel(#name, &::penstock::test::bind_host_kernel<&name>)

// Where the calling lane stands.
struct LanePlace {
  uint32_t block = 0;
  uint32_t blocks = 0;
  uint32_t thread = 0;
  uint32_t threads = 0;
};
LanePlace lane_place();
// Waits for all threads of the block, or of the 32 that make up a warp; gives whether all said yes.
bool meet_block(bool vote);
bool meet_warp(bool vote);

}  // namespace penstock::test
