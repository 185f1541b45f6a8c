// Where the memory of other PEs stands in this process's addresses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/symm/pe_set.h"

namespace penstock::symm {

// One stretch of symmetric memory: `bytes` of each PE, mapped one after the other in the order of
// PEs. A symmetric address is (stretch, offset): programs name it by the address of their own
// instance. Plain values: the hot path reads them.
struct Window {
  std::byte* own = nullptr;    // of this process: the address that the program knows
  uint64_t bytes = 0;          // 0: there is none
  std::byte* peers = nullptr;  // of PE 0's instance
  uint64_t stride = 0;         // from one PE's instance to the next one's

  bool holds(const void* address, uint64_t length) const {
    const uint64_t offset = offset_of(address);
    return offset < bytes && length <= bytes - offset;
  }
  // Huge for an address below the stretch.
  uint64_t offset_of(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(own);
  }
  std::byte* at(const void* address, uint32_t pe) const {
    return peers + pe * stride + offset_of(address);
  }
};

}  // namespace penstock::symm
