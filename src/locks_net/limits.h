// Bounds of this library, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>

#include "penstock/engine.h"
#include "penstock/holds.h"

namespace penstock::locks_net::limits {

// A number has ten bytes at most: no word, and nothing that is told, has more than this.
inline constexpr size_t kWordBytesMax = 64;
// Of one call: the answers have room in a message.
inline constexpr size_t kWordsAtOnce = 14;
static_assert((kWordsAtOnce + 1) * kWordBytesMax <= engine::kNetMessageMax);

// A call with nothing to say is answered by then, and is over a while later.
inline constexpr engine::Duration kWaitTime = std::chrono::seconds(1);
inline constexpr engine::Duration kCallTime = std::chrono::milliseconds(2000);
static_assert(kWaitTime * 2 <= kCallTime);
inline constexpr engine::Duration kTickInterval = std::chrono::milliseconds(250);
inline constexpr engine::Duration kPauseFirst = std::chrono::milliseconds(5);
inline constexpr engine::Duration kPauseMost = std::chrono::milliseconds(250);
// What is not to wait for a lock hears by then that nobody answers, if the session is over as well:
// as other calls of the names.
inline constexpr engine::Duration kAskMost = std::chrono::seconds(20);
// Calls that a node has at the service at a time: one, and what a network makes of it.
inline constexpr size_t kCallsPerNode = 16;
// Who renews its lease and does not say what it has locked holds up everybody.
inline constexpr engine::Duration kClaimMost = holds::limits::kAnswerMost;

}  // namespace penstock::locks_net::limits
