// What windows and devices of symmetric memory have of the CUDA driver in common.
#pragma once

#include "cuda_memory.h"

#include <memory>

#include "penstock/gpu/symmetric_device.h"

namespace penstock::gpu {

// One device of this process, and a context of it.
struct SymmetricContext {
  CudaMemory& memory;
  engine::DeviceId id;
  CUcontext context;
  CUstream stream;  // of a SymmetricDevice, which outlives its windows

  const Driver& driver() const { return memory.driver(); }
};

inline CUdeviceptr device_address(const void* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

Outcome<std::unique_ptr<Window>> make_window(const SymmetricContext& device, uint64_t bytes);

}  // namespace penstock::gpu
