// Copies of elements with a distance between them (kernels.cu). What limits it: memory moves 32
// bytes for each element that stands alone.
#pragma once

#include "kernel_arguments.h"
#include "penstock_device/symm/copy.h"

namespace penstock::device {

// What one block of many does: some elements that stand one behind the other.
template <class T>
PENSTOCK_DEVICE void copy_elements(const StridedElements& all, uint32_t block) {
  const uint64_t first = uint64_t{block} * all.for_each_block;
  if (first >= all.count) return;
  const uint64_t left = all.count - first;
  const auto at = static_cast<int64_t>(first);
  copy_strided<Source::far, Scope::block>(static_cast<T*>(all.to) + at * all.to_stride,
                                          static_cast<const T*>(all.from) + at * all.from_stride,
                                          Strides{all.to_stride, all.from_stride},
                                          left < all.for_each_block ? left : all.for_each_block);
}

PENSTOCK_DEVICE void copy_elements(const StridedElements& all, uint32_t block) {
  switch (all.element_bytes) {
    case 1:
      return copy_elements<uint8_t>(all, block);
    case 2:
      return copy_elements<uint16_t>(all, block);
    case 4:
      return copy_elements<uint32_t>(all, block);
    case 8:
      return copy_elements<uint64_t>(all, block);
    default:
      return copy_elements<SymmUnit>(all, block);
  }
}

}  // namespace penstock::device
