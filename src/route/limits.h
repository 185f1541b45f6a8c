// Bounds of a mover, each with its reason.
#pragma once

#include <chrono>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/route/host_source.h"
#include "penstock/route/steps.h"

namespace penstock::route::limits {

using namespace penstock::limits;

// Pieces in progress of what was found in memory: a few launches of the gather kernel full, so that
// the next is collected while one runs. Beside them there is one for each slot, so that pieces
// whose bytes were replaced, and which wait for slots, keep nobody from them.
inline constexpr uint32_t kPiecesInMemoryMax = 8192;

// Operations that are looked at in a turn and can start nothing, before the others wait for the
// next turn.
inline constexpr uint32_t kBlockedMax = 64;

// For small reads, of which a disk needs many at a time.
inline constexpr uint64_t kSmallSlotBytes = 16 * kKiB;
// The share of the slots' memory that is small ones: one part in so many.
inline constexpr uint64_t kSmallShare = 16;
static_assert(kSlotBytes % kBlockBytes == 0 && kSmallSlotBytes % kBlockBytes == 0);
// Behind each, for the checksums of its blocks: a whole page, so that the next one begins at one.
inline constexpr uint64_t kSlotChecksumBytes = 4096;
static_assert(kSlotBytes / kBlockBytes * sizeof(uint32_t) <= kSlotChecksumBytes);

static_assert(kEngineCopyBytesMax / kBlockBytes + 1 <= engine::kCopyChecksMax);

// Up to so many operations in progress, small pieces go by an engine: it takes 2.9 us of a
// processor for each, and a launch 11 us for all together.
inline constexpr uint64_t kFewOperations = 4;

// One piece for the gather kernel, in entries of a block each, which warps take side by side.
inline constexpr uint64_t kGatherBytesMax = 1 * kMiB;
static_assert(kGatherBytesMax / kBlockBytes + 2 <= engine::kCopyPiecesMax);

// Pieces that are longer go by an engine, whatever was measured.
inline constexpr uint64_t kGatherBytesMost = 8 * kMiB;

// Lists on their way: enough batches to have one collected while others run, and single reads for
// what is not in memory, as many as a disk likes.
inline constexpr uint32_t kGatherBatches = 16;
inline constexpr uint32_t kGatherSingles = 512;
// So many entries ahead the source is told what will be looked for.
inline constexpr size_t kGatherAhead = 16;

// How long the thread of transfers polls after its last work.
inline constexpr std::chrono::microseconds kTransferSpin{20};
// What a sleep takes at least, with the waking: nobody sleeps for a copy that ends sooner, and
// whoever does gets up so much earlier.
inline constexpr std::chrono::microseconds kShortSleep{100};
// A copy that is later than that is behind work of the program's, and may be so for long: its end
// is looked for in steps of a part of the time that it is late, between these bounds.
inline constexpr int64_t kLateShare = 4;
inline constexpr std::chrono::microseconds kLateStepMin{50};
inline constexpr std::chrono::microseconds kLateStepMax{1000};
// An end of a copy that others are queued behind may be seen so much later: the device has work,
// and nobody spins.
inline constexpr std::chrono::microseconds kLateLook{150};

// So many turns at most somebody drives for others' work before it goes its own way.
inline constexpr uint32_t kPollsForOthers = 64;
// The transfers' own thread lets others wait for the lock no longer than a turn, and gives them so
// long to wake up and take it.
inline constexpr std::chrono::microseconds kMakeWay{200};

// So long after a waiting thread drove, the transfers' own thread leaves everything to it: two that
// drive in turns carry all they touch from cache to cache.
inline constexpr std::chrono::microseconds kStandBy{100};

// How long a thread that waits for its own transfer drives before it sleeps: longer than a small
// copy takes, shorter than most disks.
inline constexpr std::chrono::microseconds kRunSpin{50};
// And while copies are under way, which end soon: many threads share them, and whoever sleeps is
// missing in the next lot.
inline constexpr std::chrono::microseconds kCopySpin{300};

}  // namespace penstock::route::limits
