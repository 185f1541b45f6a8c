#include "cuda_memory.h"
#include "real_devices.h"

#include <unistd.h>

namespace penstock::gpu {

Outcome<engine::DeviceMemory*> real_devices() {
  struct Opened {
    Outcome<std::unique_ptr<CudaMemory>> memory = CudaMemory::open();
    pid_t process = ::getpid();
  };
  // Never destroyed: threads may copy until the process ends, and the driver ends before that.
  static Opened& opened = *new Opened;
  if (opened.process != ::getpid()) {
    return Failure{Code::closed, "CUDA does not work in a process that was forked after it began"};
  }
  if (!opened.memory) return opened.memory.error();
  return opened.memory->get();
}

}  // namespace penstock::gpu
