// Running one launch of a kernel: its lanes are fibers of the stream's thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "penstock/testing_gpus/host_kernels.h"

namespace penstock::test {

struct LaunchShape {
  uint32_t blocks = 1;
  uint32_t threads = 1;
};

enum class LaunchEnd : uint8_t {
  done,
  trapped,  // a lane has ended its kernel, which breaks the device
  stuck,    // lanes wait for others of their block that have ended
};

// Blocks begin in the order of their numbers; as many as fit run at the same time, as on a GPU.
// Ends early when `is_lost` becomes true.
LaunchEnd run_launch(const BoundKernel& kernel, LaunchShape shape,
                     const std::atomic<bool>& is_lost);

}  // namespace penstock::test
