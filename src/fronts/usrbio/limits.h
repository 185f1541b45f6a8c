// Bounds of the USRBIO front, each with its reason.
#pragma once

#include "hf3fs_usrbio.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/front.h"

namespace penstock::usrbio {

// Operations in flight of one ring: what the native ring can hold. Programs submit lists of 40,000.
inline constexpr uint32_t kEntriesMax = 262144;

// A larger operation than the native limit becomes several. This many more native entries than ring
// entries are there at least, so that a lone operation of 4 GiB always fits.
inline constexpr uint32_t kSpareEntries = 64;

// The native entries behind a ring of `entries`: twice as many, so that a ring full of operations
// of twice the native limit still runs at its full depth. A large ring has room enough for those
// that are, and costs memory by the entry: it gets what it asks for.
inline constexpr uint32_t kDoubledEntriesMax = 32768;
constexpr uint32_t native_entries(uint32_t entries) {
  const uint32_t doubled = std::min(std::bit_ceil(2 * entries + kSpareEntries), kDoubledEntriesMax);
  return std::max(doubled, std::bit_ceil(entries));
}

// Descriptor numbers that can be registered: Linux's default for fs.nr_open.
inline constexpr uint32_t kDescriptors = 1U << 20;

// Completions taken from the native ring at once, on the stack.
inline constexpr uint32_t kCompletionBatch = 128;

// What hf3fs_ior_size() counts for one entry and for a ring. The native ring lives in memory of its
// own, so these only have to be invertible; they leave room for what a caller may expect there.
inline constexpr size_t kRingHeaderBytes = 4096;
inline constexpr size_t kRingEntryBytes = 128;

inline constexpr size_t kMountPointBytes = sizeof(hf3fs_iov::mount_point);

static_assert(is_power_of_two(native_entries(1)) && native_entries(1) > kSpareEntries);
static_assert(native_entries(kEntriesMax) == kEntriesMax);
static_assert(kDoubledEntriesMax == front::limits::kKeptEntriesMax);
static_assert(is_power_of_two(kEntriesMax) && kDoubledEntriesMax > 2 * kSpareEntries);
static_assert(sizeof(hf3fs_ior::mount_point) == kMountPointBytes);

}  // namespace penstock::usrbio
