// Bounds of what all fronts stand on, each with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::front::limits {

// NOLINTNEXTLINE(google-build-using-namespace): one name for all bounds.
using namespace penstock::limits;

// Sessions of one process's life: one for each store that it uses. They are not given up before
// their table, so that a word can name one without counting.
inline constexpr uint32_t kSessionsMax = 4096;

// Native rings of one size before they get more than one lane each, and the number of them from
// then on: an agent's shards are fewer.
inline constexpr uint32_t kRingsToSpread = 16;
// Lanes of one native ring, and entries of all its lanes: the agent has so many operations of a
// native ring in flight at a time, which its lanes share.
inline constexpr uint32_t kLanesPerRingMax = 64;
inline constexpr uint32_t kSharedEntriesMax = 65536;
// A native ring of so many entries is kept for the next one; a larger one is much memory for a ring
// that may never come.
inline constexpr uint32_t kKeptEntriesMax = 32768;

// For how long the end of a lane waits for its operations: a disk takes far less, and an agent that
// has died is given up before.
inline constexpr uint64_t kDrainNanoseconds = 120'000'000'000;
// Completions that are dropped at once then, on the stack.
inline constexpr uint32_t kDropBatch = 128;

}  // namespace penstock::front::limits
