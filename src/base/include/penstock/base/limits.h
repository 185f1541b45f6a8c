// Bounds that more than one library relies on, each with its reason.
#pragma once

#include <cstdint>

#include "penstock/base/bytes.h"

namespace penstock::limits {

// The unit of checksum and of allocation. 4 KiB is what random readers ask for and what every
// drive and page cache moves at least, so a verified 4 KiB read never reads more than it returns.
inline constexpr uint64_t kBlockBytes = 4 * kKiB;

// Chunk sizes a file may choose. Smaller ones would make placement tables large, larger ones make
// recovery of one chunk slow.
inline constexpr uint64_t kChunkBytesMin = 64 * kKiB;
inline constexpr uint64_t kChunkBytesMax = 64 * kMiB;
inline constexpr uint64_t kChunkBytesDefault = 4 * kMiB;

// One ring operation. Larger transfers are several operations; this bounds what one submission
// entry can make an agent do.
inline constexpr uint64_t kIoBytesMax = 64 * kMiB;

// The largest file: chunk indices are 32 bits, at the smallest chunk size.
inline constexpr uint64_t kFileBytesMax = kChunkBytesMin << 32;

// As Linux has them (limits.h), without the terminating zero.
inline constexpr uint32_t kNameBytesMax = 255;
inline constexpr uint32_t kPathBytesMax = 4095;
inline constexpr uint32_t kSymlinksFollowedMax = 40;

static_assert(is_power_of_two(kBlockBytes));
static_assert(is_power_of_two(kChunkBytesMin) && kChunkBytesMin % kBlockBytes == 0);
static_assert(is_power_of_two(kChunkBytesMax) && kChunkBytesMin <= kChunkBytesDefault &&
              kChunkBytesDefault <= kChunkBytesMax);
static_assert(kFileBytesMax <= static_cast<uint64_t>(INT64_MAX), "a length must fit off_t");

}  // namespace penstock::limits
