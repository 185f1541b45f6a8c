// SimulatedDevices: gpu::SymmetricDevices without a GPU.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/gpu.h"

namespace penstock::test {

// Off unless set.
struct SimulatedDeviceFaults {
  // Of each process: allocations beyond it fail.
  uint64_t allocates_at_most = ~uint64_t{0};
  // Bit j: this process's devices have no way to the memory of device j.
  uint64_t unreachable = 0;
  // The launches that come after so many fail, as for want of resources; less than none: none.
  int64_t launches_until_failure = -1;
  bool refuses_reservations = false;
};

struct SimulatedDeviceOptions {
  uint32_t devices = 1;
  uint64_t memory_bytes = uint64_t{4} << 30;  // of each; taken as it is touched
  // Work is done when it is given to a stream, in the thread that gives it: a kernel that waits for
  // another PE holds it up, as with CUDA_LAUNCH_BLOCKING. Otherwise by a thread of the stream.
  bool at_once = false;
};

// What one process sees of its GPUs. Thread safe.
//
// Like real ones: memory stands at its place in a window and has zeros at first; kernels are found
// by name, their arguments are copied when they are launched, a warp has 32 lanes; a kernel that
// traps, or a device that is lost, breaks everything that is asked of the device later, with
// peer_gone; a copy into pageable memory on the default stream lets no other call of the program's
// context through while it waits. Unlike them: the host may follow addresses of device memory;
// lanes of a launch never run at the same time; stores are seen at once and in order
// (src/symm/tests/simulated_gpus.h is for the contrary); streams are never captured; what memory
// the other processes of a device have is not counted.
class SimulatedDevices final : public gpu::SymmetricDevices {
 public:
  explicit SimulatedDevices(SimulatedDeviceOptions options);
  // Nothing that was opened of it is left.
  ~SimulatedDevices() override;

  Outcome<engine::DeviceId> current() override;
  bool has_current() override;
  Result<void, Failure> make_current(engine::DeviceId device) override;
  Outcome<std::unique_ptr<gpu::SymmetricDevice>> open(engine::DeviceId device) override;
  Outcome<std::unique_ptr<gpu::SymmetricDevice>> open_apart(engine::DeviceId device) override;

  // As cudaSetDevice(), for the calling thread.
  void set_current(engine::DeviceId device);
  // As cudaStreamCreate(); lives as long as this object.
  engine::DeviceStream make_stream(engine::DeviceId device);

  // As cuMemCreate() of memory that may be exported, mapped; for as long as the process lives.
  Outcome<MutableBytes> make_memory(engine::DeviceId device, uint64_t bytes);

  // As cudaMalloc(); as long as this object.
  MutableBytes make_programs_memory(engine::DeviceId device, uint64_t bytes);

  // By any thread, at any time. From now on nothing works on the device; kernels that run there
  // end.
  void lose(engine::DeviceId device);
  void set_faults(const SimulatedDeviceFaults& faults);
  // Launches that a device was given, of kernels of any name.
  uint64_t launches(engine::DeviceId device) const;

  class Gpu;  // for this library

 private:
  Outcome<std::unique_ptr<gpu::SymmetricDevice>> open(engine::DeviceId device, bool is_apart);

  const SimulatedDeviceOptions options_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
};

}  // namespace penstock::test
