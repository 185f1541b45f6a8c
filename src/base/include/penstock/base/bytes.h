// Byte ranges and the arithmetic of alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "penstock/base/assert.h"

namespace penstock {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;
inline constexpr uint64_t kTiB = 1024 * kGiB;

constexpr bool is_power_of_two(uint64_t value) {
  return std::has_single_bit(value);
}

// `alignment` is a power of two.
constexpr uint64_t align_down(uint64_t value, uint64_t alignment) {
  return value & ~(alignment - 1);
}
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr bool is_aligned(uint64_t value, uint64_t alignment) {
  return (value & (alignment - 1)) == 0;
}
inline bool is_aligned(const void* pointer, uint64_t alignment) {
  return is_aligned(reinterpret_cast<uintptr_t>(pointer), alignment);
}

// Whether [offset, offset + length) lies inside [0, size), without overflow for any input.
constexpr bool range_within(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

}  // namespace penstock
