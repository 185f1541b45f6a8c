// What host code and kernels share: the lists that kernels work from, in pinned host memory that
// the device reads.
#pragma once

#include <cstdint>

namespace penstock::gpu {

// One piece of a gather: any addresses, any length; engine::CopyPiece. If it is checked, it must
// have this CRC-32C as it landed.
struct alignas(16) GatherPiece {
  const void* source;
  void* destination;
  uint64_t length;
  uint32_t crc32c;
  uint32_t checked;  // 0 or 1
};

// One block whose CRC-32C must be `crc32c`.
struct alignas(16) CheckBlock {
  const void* data;
  uint32_t length;
  uint32_t crc32c;
  uint32_t check;  // the check's index
  uint32_t reserved[3];
};

// Linear maps of 32-bit remainders, each as four tables of 256 words, one for each byte: the
// remainder times x^32, x^64, ..., x^512 and x^1024 modulo the polynomial.
inline constexpr int kShiftTables = 6;
inline constexpr int kShiftTableWords = 4 * 256;

static_assert(sizeof(GatherPiece) == 32 && sizeof(CheckBlock) == 32);

}  // namespace penstock::gpu
