// Bounds of a mover, each with its reason.
#pragma once

#include <chrono>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/route/host_source.h"

namespace penstock::route::limits {

using namespace penstock::limits;

// Pieces in progress of what was found in memory: a few launches of the gather kernel full, so that
// the next is collected while one runs. Beside them there is one for each slot, so that pieces
// whose bytes were replaced, and which wait for slots, keep nobody from them.
inline constexpr uint32_t kPiecesInMemoryMax = 8192;

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
// Behind each, for the checksums of its blocks: a whole page, so that the next one begins at one.
inline constexpr uint64_t kSlotChecksumBytes = 4096;
static_assert(kSlotBytes / kBlockBytes * sizeof(uint32_t) <= kSlotChecksumBytes);

// One copy by an engine: long enough to hide the pause between two (5 of 300 us).
inline constexpr uint64_t kEngineCopyBytesMax = 16 * kMiB;
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
inline constexpr uint32_t kTurnsForOthers = 64;
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

// Local files known to one source: as many as most processes may have open.
inline constexpr uint32_t kLocalFilesMax = 16384;
static_assert(is_power_of_two(kLocalFilesMax), "numbers wrap");

// Up to so many bytes are read from the page cache by whoever drives the loop: 4 us, what waking
// another thread costs.
inline constexpr uint64_t kReadNowBytesMax = 32 * kKiB;

// A part of a local file that is pinned at once: 3 to 7 ms of work, and little enough to waste.
inline constexpr uint64_t kWindowBytes = 64 * kMiB;
static_assert(kWindowBytes % kSlotBytes == 0 && kWindowBytes % kEngineCopyBytesMax == 0);

// Parts of one file that are remembered: 64 TiB.
inline constexpr size_t kWindowsSeenMax = 1U << 20;

// A part is pinned when all of it, and one in so many of its bytes more, was read without: some of
// it was read again then, also of what is read in no order, and in pieces of whole blocks.
inline constexpr uint64_t kReadAgainPart = 16;
// Parts whose reads are counted: 256 GiB, and few that share a place where a program reads less.
inline constexpr size_t kReadBytesPlaces = 4096;

// Parts that are pinned ahead of one that is read again: pinning is as fast as copying, so it must
// run ahead.
inline constexpr uint64_t kWindowsAhead = 4;

// At most one page in so many may be missing from the page cache; pinning reads those.
inline constexpr uint64_t kWindowMissingMax = 16;
// Where the kernel does not tell which ones are there, one page in so many bytes is tried: what is
// read one after the other comes and goes in about such parts.
inline constexpr uint64_t kWindowSampleBytes = 2 * kMiB;
static_assert(kWindowBytes / kWindowSampleBytes >= kWindowMissingMax);

// Places that are tried for a window in the table that all threads share, which is half full at
// most.
inline constexpr uint64_t kSharedWindowTries = 16;
// Windows that are looked at for one to give up.
inline constexpr uint32_t kWindowsLookedAt = 8;

// What was used since is not unpinned for others, and what could not be pinned is not tried again.
inline constexpr std::chrono::seconds kWindowIdle{2};
inline constexpr std::chrono::milliseconds kWindowRetry{50};

// The kernel stamps files with the time of its last tick, 1 to 10 ms ago.
inline constexpr std::chrono::milliseconds kFileClockTick{20};

// Failures to pin after which nothing more is tried: the system does not allow it.
inline constexpr uint32_t kPinFailuresMax = 8;

}  // namespace penstock::route::limits
