// What a ring for kernels keeps for each position, and for a batch of requests.
#pragma once

#include "device_ring.h"

namespace penstock::api {

// What every request touches.
struct DeviceRing::Position {
  // Whose place was answered last, as long as it may be in use; the serving thread's.
  Held* held = nullptr;
  // A transfer is in flight. Release at its end pairs with acquire in serve().
  std::atomic<bool> busy{false};
};

// What is brought or taken away by a copy engine.
struct DeviceRing::Slot : route::Transfer {
  DeviceRing* ring = nullptr;
  ring::KernelQueue::Taken taken;  // what the transfer answers
};

// Requests that are served side by side. Kept from batch to batch, as its size would make clearing
// it take longer than serving a single request.
struct DeviceRing::Batch {
  struct One {
    const ring::KernelQueue::Taken* taken = nullptr;
    uint32_t file = 0;  // the session's
  };
  struct Read : One {
    CachePlace place;
    bool found = false;
  };

  std::array<ring::KernelQueue::Taken, limits::kDeviceRingBatch> taken;
  // Reads that may be answered with their places, and all others.
  std::array<Read, limits::kDeviceRingBatch> reads;
  std::array<One, limits::kDeviceRingBatch> transfers;
  uint32_t read_count = 0;
  uint32_t transfer_count = 0;

  void by_copy(const One& one) { transfers[transfer_count++] = one; }
};

}  // namespace penstock::api
