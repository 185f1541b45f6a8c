// What the service of files keeps for each position of a ring, and for a batch of requests.
#pragma once

#include "penstock/proxy/file_service.h"
#include "penstock/proxy/limits.h"

namespace penstock::proxy {

// What every request touches.
struct FileService::Position {
  // The view that the last answer's address is in, as long as a kernel may copy from there; the
  // serving thread's.
  cache_view::ViewHold::Held* held = nullptr;
  // A transfer is in flight. Release at its end pairs with acquire in serve().
  std::atomic<bool> busy{false};
};

// What is brought or taken away by a copy engine.
struct FileService::Slot : route::Transfer {
  FileService* service = nullptr;
  Taken taken;  // what the transfer answers
};

// Requests that are served side by side. Kept from batch to batch, as its size would make clearing
// it take longer than serving a single request.
struct FileService::Batch {
  struct One {
    const Taken* taken = nullptr;
    uint32_t file = 0;  // the session's
  };
  struct Read : One {
    cache_view::CachedRange range;
    bool found = false;
  };

  // Reads that may be answered with their addresses, and all others.
  std::array<Read, limits::kDeviceRingBatch> reads;
  std::array<One, limits::kDeviceRingBatch> transfers;
  uint32_t read_count = 0;
  uint32_t transfer_count = 0;

  void by_copy(const One& one) {
    ASSERT(transfer_count < transfers.size());
    transfers[transfer_count++] = one;
  }
};

}  // namespace penstock::proxy
