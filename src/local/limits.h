// Bounds of local files as a source, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/route.h"

namespace penstock::local::limits {

using namespace penstock::limits;

// Local files known to one source: as many as most processes may have open.
inline constexpr uint32_t kLocalFilesMax = 16384;
static_assert(is_power_of_two(kLocalFilesMax), "numbers wrap");

// Up to so many bytes are read from the page cache by the thread that drives the loop: 4 us, what
// waking another thread costs.
inline constexpr uint64_t kReadNowBytesMax = 32 * kKiB;

// A part of a local file that is pinned at once: 3 to 7 ms of work, and little enough to waste.
inline constexpr uint64_t kWindowBytes = 64 * kMiB;
static_assert(kWindowBytes % route::limits::kSlotBytes == 0 &&
              kWindowBytes % route::limits::kEngineCopyBytesMax == 0);

// Parts of one file that are remembered: 64 TiB.
inline constexpr size_t kWindowsSeenMax = 1U << 20;

// A part is pinned when as many bytes as it has, and a sixteenth more, were read from it while it
// was not pinned: some of them were read again then, in whatever order and pieces.
inline constexpr uint64_t kReadAgainPart = 16;
// Counters of reads, one for each part by hash: for 256 GiB; where a program reads less, few parts
// share one.
inline constexpr size_t kReadBytesCounters = 4096;

// Parts that are pinned ahead of one that is read again: pinning is as fast as copying, so it must
// run ahead.
inline constexpr uint64_t kWindowsAhead = 4;

// At most one page in so many may be missing from the page cache; pinning reads those.
inline constexpr uint64_t kWindowMissingMax = 16;
// Where the kernel does not tell which ones are there, one page in so many bytes is tried: what is
// read one after the other comes and goes in about such parts.
inline constexpr uint64_t kWindowSampleBytes = 2 * kMiB;
static_assert(kWindowBytes / kWindowSampleBytes >= kWindowMissingMax);

// Slots that are tried for a window in the table that all threads share, which is half full at
// most.
inline constexpr uint64_t kSharedWindowTries = 16;
// Windows that are looked at for one to give up.
inline constexpr uint32_t kWindowsLookedAt = 8;

// A part that was used within this time is not unpinned for another one; a part that could not be
// pinned is not tried again for this time.
inline constexpr std::chrono::seconds kWindowIdle{2};
inline constexpr std::chrono::milliseconds kWindowRetry{50};

// The kernel stamps files with the time of its last tick, 1 to 10 ms ago.
inline constexpr std::chrono::milliseconds kFileClockTick{20};

// Failures to pin after which nothing more is tried: the system does not allow it.
inline constexpr uint32_t kPinFailuresMax = 8;

}  // namespace penstock::local::limits
