// What host code and kernels share: the lists that kernels work from, in pinned host memory that
// the device reads.
#pragma once

#include <cstdint>

namespace penstock::gpu {

// One piece of a gather: any addresses, any length; engine::CopyPiece but for the checksum. If
// it is checked, it must have this remainder (penstock_device/checksum.h).
struct alignas(16) GatherPiece {
  const void* source;
  void* destination;
  uint64_t length;
  uint32_t remainder;
  uint32_t checked;  // 0 or 1
};

// One block, not empty, that must have this remainder as it landed.
struct alignas(16) CheckBlock {
  const void* data;
  uint32_t length;
  uint32_t remainder;
  uint32_t check;  // the check's index
  uint32_t reserved[3];
};

static_assert(sizeof(GatherPiece) == 32 && sizeof(CheckBlock) == 32);

}  // namespace penstock::gpu
