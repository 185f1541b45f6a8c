// The heap of a group in its PEs' GPUs.
#pragma once

#include "penstock_device/symm/state.h"

#include <memory>

#include "penstock/gpu.h"
#include "penstock/symm/group.h"

namespace penstock::symm {

struct DeviceHeapOptions {
  uint64_t bytes = 0;  // of each PE; 0: a quarter of the device's memory. Taken at once, as the
                       // driver gives none as it is touched.
};

// Made and used as the group's own heap is: the same calls give the same places. Destroyed before
// the group and after the last kernel that uses it.
class DeviceHeap {
 public:
  // Together with all of the group, each with a device of its choice; several may share one.
  // not_supported: a device does not reach another one's memory.
  static Outcome<std::unique_ptr<DeviceHeap>> make(Group& group, gpu::SymmetricDevice& device,
                                                   const DeviceHeapOptions& options);
  ~DeviceHeap();
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;

  gpu::SymmetricDevice& device() { return device_; }
  Heap& heap() { return heap_; }
  std::byte* address(uint64_t offset) const { return memory_.own + offset; }
  uint64_t offset(const void* address) const { return memory_.offset_of(address); }

  // As Group::at(), in device memory: an address for kernels and copies, not for the host's loads
  // and stores.
  std::byte* at(const void* symmetric, uint64_t bytes, uint32_t pe) const {
    return pe < group_.size() && memory_.holds(symmetric, bytes) ? memory_.at(symmetric, pe)
                                                                 : nullptr;
  }

  // What kernels are to know.
  const device::SymmState& state() const { return state_; }
  // Writes it where a unit of the program keeps it, an address in device memory.
  Status tell(void* unit) const;
  // Tells kernels of a team that the group has made, or of none of that number any more.
  Status tell_of(const Team& team);
  Status forget(uint32_t team);

 private:
  DeviceHeap(Group& group, gpu::SymmetricDevice& device, std::unique_ptr<gpu::Window> window,
             const Window& memory);
  Outcome<void> begin();

  Group& group_;
  gpu::SymmetricDevice& device_;
  const std::unique_ptr<gpu::Window> window_;
  const Window memory_;
  Heap heap_;
  device::SymmState state_{};
  uint32_t* trouble_ = nullptr;  // of the host, for kernels; stays as long as the process
};

}  // namespace penstock::symm
