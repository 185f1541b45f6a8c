// This library's kernels (kernels.cu) by their numbers, and how they are launched.
#pragma once

#include <array>

#include "penstock/gpu.h"

namespace penstock::symm {

enum class Kernel : uint32_t {
  barrier,
  signal,
  store,
  wait_for_words,
  strided,
  change,
  put_with_signal,
  put_far,
  get_far,
  row_far,
  store_far,
  change_far,
  quiet_far
};

// In the order of their numbers.
inline constexpr std::array kKernels = {
    "penstock_symm_barrier",         "penstock_symm_signal",       "penstock_symm_store",
    "penstock_symm_wait_for_words",  "penstock_symm_copy_strided", "penstock_symm_change",
    "penstock_symm_put_with_signal", "penstock_symm_put_far",      "penstock_symm_get_far",
    "penstock_symm_row_far",         "penstock_symm_store_far",    "penstock_symm_change_far",
    "penstock_symm_quiet_far",
};

static_assert(kKernels.size() == static_cast<size_t>(Kernel::quiet_far) + 1);

struct Grid {
  uint32_t blocks = 1;
  uint32_t threads = 1;
};

// Addresses of arguments, as a launch takes them.
template <class... Argument>
Status launch(gpu::SymmetricDevice& device, Kernel kernel, Grid grid, engine::DeviceStream stream,
              Argument... argument) {
  std::array<void*, sizeof...(Argument)> addresses{&argument...};
  return device.launch({.kernel = static_cast<uint32_t>(kernel),
                        .blocks = grid.blocks,
                        .threads = grid.threads,
                        .arguments = addresses,
                        .stream = stream});
}

}  // namespace penstock::symm
