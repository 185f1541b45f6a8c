// Bounds of serving rings, each with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/ring.h"

namespace penstock::serving::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// What a session's account is charged with of the agent's heap for a ring with its first
// operations.
inline constexpr uint64_t kRingHeapBytes = 16 * kKiB;

// Operations that one ring has below the agent at a time, over all its lanes; more stay in the
// submission queues.
inline constexpr uint32_t kRingOpsMax = 4096;
// Files that one request for many reads at a time: enough to keep a few drives busy, and
// no flood beside the rings.
inline constexpr uint32_t kFileOpsMax = 128;
// Submissions taken from one lane before the next lane has its turn.
inline constexpr uint32_t kBatch = 16;
static_assert(kBatch <= kRingOpsMax);
// A ring that its application did not use for so many turns of its shard dozes, and so many of
// those that doze are looked at in a turn: some 5 microseconds.
inline constexpr uint32_t kTurnsBeforeDoze = 1024;
inline constexpr size_t kDozingPerTurn = 64;
static_assert(ring::kLanesMax <= 64, "a set of lanes is one word");

}  // namespace penstock::serving::limits
