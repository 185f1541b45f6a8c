// Bounds of a mover, each with its reason.
#pragma once

#include <chrono>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/route/host_source.h"

namespace penstock::route::limits {

using namespace penstock::limits;

// Pieces in progress: a few launches of the gather kernel full, so that the next is collected while
// one runs.
inline constexpr uint32_t kPiecesMax = 8192;

// Operations that are looked at in a turn and can start nothing, before the others wait for the
// next turn.
inline constexpr uint32_t kBlockedMax = 64;

// A slot holds what a disk reads at once at full speed. Pieces begin at multiples of it in the
// file, so that whole blocks are read.
inline constexpr uint64_t kSlotBytes = kMiB;
// For small reads, of which a disk needs many at a time.
inline constexpr uint64_t kSmallSlotBytes = 16 * kKiB;
// The share of the slots' memory that is small ones: one part in so many.
inline constexpr uint64_t kSmallShare = 16;
static_assert(kSlotBytes % kBlockBytes == 0 && kSmallSlotBytes % kBlockBytes == 0);

// One copy by an engine: long enough to hide the pause between two (5 of 300 us).
inline constexpr uint64_t kEngineCopyBytesMax = 16 * kMiB;
static_assert(kEngineCopyBytesMax / kBlockBytes + 1 <= engine::kCopyChecksMax);

// One piece for the gather kernel, in entries of a block each, which warps take side by side.
inline constexpr uint64_t kGatherBytesMax = 1 * kMiB;
static_assert(kGatherBytesMax / kBlockBytes + 2 <= engine::kCopyPiecesMax);

// Lists on their way: enough batches to have one collected while others run, and single reads for
// what is not in memory, as many as a disk likes.
inline constexpr uint32_t kGatherBatches = 16;
inline constexpr uint32_t kGatherSingles = 512;
// So many entries ahead the source is told what will be looked for.
inline constexpr size_t kGatherAhead = 8;

// How long the thread of transfers polls after its last work, and how often it looks after copies
// when it does not: each look costs some microseconds, a copy of 16 MiB takes 300.
inline constexpr std::chrono::microseconds kTransferSpin{20};
inline constexpr std::chrono::microseconds kTransferLook{30};

// How long a thread that waits for its own transfer drives before it sleeps: longer than a small
// copy takes, shorter than most disks.
inline constexpr std::chrono::microseconds kRunSpin{50};

// Local files known to one source: as many as most processes may have open.
inline constexpr uint32_t kLocalFilesMax = 16384;
static_assert(is_power_of_two(kLocalFilesMax), "numbers wrap");

// Up to so many bytes are read from the page cache by whoever drives the loop: 4 us, what waking
// another thread costs.
inline constexpr uint64_t kReadNowBytesMax = 32 * kKiB;

}  // namespace penstock::route::limits
