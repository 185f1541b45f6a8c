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
// whose bytes were replaced, and which wait for slots, do not use up those of the others.
inline constexpr uint32_t kPiecesInMemoryMax = 8192;

// Pieces that the source moves to or from GPU memory by itself, and bytes of each: with these a
// card of 400 Gbit/s is busy, and what one asks for waits for little else.
inline constexpr uint32_t kDirectPiecesMax = 64;
inline constexpr uint64_t kDirectBytesMax = 4 * kMiB;

// Operations that the mover looks at in one turn and that can start nothing; then it leaves the
// others for the next turn.
inline constexpr uint32_t kBlockedMax = 64;

// For small reads, of which a disk needs many at a time.
inline constexpr uint64_t kSmallSlotBytes = 16 * kKiB;
// The share of the slots' memory that is small ones: one part in so many.
inline constexpr uint64_t kSmallShare = 16;
// One has the checksums of a direct piece, and a byte that is copied to it.
static_assert(kDirectBytesMax / kBlockBytes * sizeof(uint32_t) < kSmallSlotBytes);
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
// The source is told of an entry so many entries before it is looked up.
inline constexpr size_t kGatherAhead = 16;

// How long the thread of transfers polls after its last work.
inline constexpr std::chrono::microseconds kTransferSpin{20};
// What a sleep takes at least, with the waking: the thread does not sleep for a copy that ends
// sooner, and wakes so much before the end of one that does not.
inline constexpr std::chrono::microseconds kShortSleep{100};
// A copy that has not ended when it should have is behind work of the program's, perhaps for long:
// its end is looked for in steps of a fourth of the time that it is late, between these bounds.
inline constexpr int64_t kLateShare = 4;
inline constexpr std::chrono::microseconds kLateStepMin{50};
inline constexpr std::chrono::microseconds kLateStepMax{1000};
// The end of a copy that others are queued behind may be seen so much later: the device has work
// meanwhile, and no thread spins.
inline constexpr std::chrono::microseconds kLateLook{150};

// A thread drives so many turns at most for operations that are not its own.
inline constexpr uint32_t kPollsForOthers = 64;
// Where other threads wait for the lock, the transfers' own thread gives it up after a turn, and
// gives them so long to wake up and take it.
inline constexpr std::chrono::microseconds kMakeWay{200};

// For so long after a waiting thread drove, the transfers' own thread leaves everything to it: if
// two threads drive alternately, what they touch moves from one processor's cache to the other's.
inline constexpr std::chrono::microseconds kStandBy{100};

// How long a thread that waits for its own transfer drives before it sleeps: longer than a small
// copy takes, shorter than most disks.
inline constexpr std::chrono::microseconds kRunSpin{50};
// The same while copies are under way, which end soon: a thread that sleeps then submits its next
// read too late for the copies that the others share.
inline constexpr std::chrono::microseconds kCopySpin{300};

}  // namespace penstock::route::limits
