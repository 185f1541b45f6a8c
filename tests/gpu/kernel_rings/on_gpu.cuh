// CUDA as the programs here use it, and a ring with GPU memory.
#pragma once

#include "penstock_device.h"
#include "rig.h"

#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <string>

#define CUDA(call)                                                                           \
  do {                                                                                       \
    const cudaError_t error_ = (call);                                                       \
    if (error_ != cudaSuccess) stop(std::string(#call) + ": " + cudaGetErrorString(error_)); \
  } while (0)

// Memory that host and GPU both reach.
template <class T>
T* shared_array(size_t count) {
  T* memory = nullptr;
  CUDA(cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable));
  std::memset(static_cast<void*>(memory), 0, count * sizeof(T));
  return memory;
}

// A region of GPU memory with a ring.
struct GpuRing {
  GpuRing(Rig& rig, uint64_t bytes, uint32_t entries) {
    must(penstock_region_create_device(rig.session, 0, bytes, &region), "GPU region");
    must(penstock_device_ring_create(rig.session, region, entries, &ring), "device ring");
    must(penstock_device_ring_view(ring, &view, sizeof view), "view");
  }
  ~GpuRing() {
    if (ring != nullptr) penstock_device_ring_destroy(ring);
    penstock_region_release(region);
  }
  uint8_t add(penstock_file file) const {
    return static_cast<uint8_t>(must(penstock_device_ring_add_file(ring, file), "add file"));
  }
  penstock_device_ring_stats stats() const {
    penstock_device_ring_stats out{};
    must(penstock_device_ring_get_stats(ring, &out), "stats");
    return out;
  }

  penstock_region* region = nullptr;
  penstock_device_ring* ring = nullptr;
  penstock::device::Ring view{};
};
