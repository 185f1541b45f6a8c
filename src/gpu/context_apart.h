// A context of a device beside the one that the program uses: calls in one do not wait for calls in
// the other (docs/decisions/0081).
#pragma once

#include "cuda_memory.h"

#include <memory>

namespace penstock::gpu {

class ContextApart {
 public:
  // The one that this process has of the device, if somebody has it; else a new one.
  static Outcome<std::shared_ptr<ContextApart>> get(CudaMemory& memory, engine::DeviceId device);
  ~ContextApart();
  ContextApart(const ContextApart&) = delete;
  ContextApart& operator=(const ContextApart&) = delete;

  CUcontext context() const { return context_; }

 private:
  ContextApart(const Driver& driver, CUcontext context) : driver_(driver), context_(context) {}
  static Outcome<std::shared_ptr<ContextApart>> make(const Driver& driver, engine::DeviceId device);

  const Driver& driver_;
  const CUcontext context_;
};

// A copy in such a context that goes beside the program's kernels. Aligned words of 4 and 8 bytes
// are read, not written, at once.
CUresult copy_beside_kernels(const Driver& driver, CUdeviceptr to, CUdeviceptr from, uint64_t bytes,
                             CUstream stream);

}  // namespace penstock::gpu
