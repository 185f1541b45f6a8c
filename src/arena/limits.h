// Bounds of the arena, each with its reason.
#pragma once

#include "penstock/arena.h"

namespace penstock::arena::limits {

using namespace penstock::limits;

// Slots of one segment: 1 TiB, more than the DRAM of a node. Bounds what a reader reserves of its
// address space.
inline constexpr uint32_t kSlotsMax = 1u << 24;
// A slab is made, filled with pages and mapped as a whole: larger ones take too long at a time.
inline constexpr uint64_t kSlabBytesMax = 1 * kGiB;

// Segments with and without sessions; an agent has no more sessions than that.
inline constexpr uint32_t kSegmentsMax = 1024;
// Touch logs of one segment: one of each session.
inline constexpr uint32_t kLogsMax = 1024;

// Streams of fills that are kept apart, so that each gets neighbouring slots, and how many slots
// are kept for a stream: 4 MiB, more than one DMA needs to reach the speed of the link.
inline constexpr uint32_t kRunsMax = 16;
inline constexpr uint32_t kRunSlotsMax = 64;

// Slots that a search for a victim looks at before it takes the coldest that it saw.
inline constexpr uint32_t kSweepMax = 4096;

// The count of a slot's hits since the search passed it last stops here.
inline constexpr uint8_t kFrequencyMax = 3;

// Slots that are zeroed while the segment's mutex is held: a tenth of a millisecond.
inline constexpr uint32_t kCleanAtOnce = 16;

// Evictions from one look at the touch logs to the next: so that the look costs less than the
// fills.
inline constexpr uint32_t kEvictionsPerDrain = 64;

}  // namespace penstock::arena::limits
