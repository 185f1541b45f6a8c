// Bounds of this library, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/engine.h"
#include "penstock/holds.h"
#include "penstock/meta_records.h"

namespace penstock::holds_net::limits {

using namespace penstock::holds::limits;  // NOLINT: they stand behind those below

// ---- what is said ----

inline constexpr size_t kRequestBytesMax = kMiB;
// What an agent has room for.
inline constexpr size_t kAnswerBytesMax = 256 * kKiB;
// Names of one recall: with more, all that is kept of the directory is taken back.
inline constexpr size_t kNamesMax = 4096;
inline constexpr size_t kNamesBytesMax = 64 * kKiB;
// A number has ten bytes at most, and no word has more than five.
inline constexpr size_t kWordBytesMax = 64;
static_assert(kNamesBytesMax + kNamesMax * 2 + kWordBytesMax < kAnswerBytesMax,
              "the longest recall is told");
// Claims of one call, as each has its stamp in the answer.
inline constexpr size_t kClaimsAtOnce = 8192;
static_assert(kClaimsAtOnce * 24 + kKiB < kAnswerBytesMax);
static_assert(kClaimsAtOnce * kWordBytesMax + kKiB < kRequestBytesMax);

// ---- the service ----

// A service whose ticks come so late has heard nobody meanwhile: its process was stopped. For less
// nobody ends who renews.
inline constexpr engine::Duration kStoodStill = kAgentLease - kRenewInterval;
static_assert(kStoodStill + kRenewInterval + kTickInterval < kAgentLease + kLeaseGuard);

// Calls that a node has there at a time: two, and what a network makes of them.
inline constexpr size_t kCallsPerNode = 16;
// What waits for an agent that does not ask: it asks again for what was given to it.
inline constexpr size_t kTellMost = 2 * kWaitingOfAgentMax;
// Recalls that were not answered are said again.
inline constexpr engine::Duration kRecallAgain = std::chrono::seconds(1);
// Numbers that a node calls otherwise. A subtree has another root once its path leads elsewhere; of
// those before more are forgotten, and then said by their own.
inline constexpr size_t kRootsMax = 64;
// Sessions of one node that have not gone. A node that begins faster than they end waits.
inline constexpr size_t kSessionsOfNodeMax = 16;

// ---- the agent ----

// A call that waits with the service is over by then, and another one that is lost costs no lease.
inline constexpr engine::Duration kAttendTime = std::chrono::milliseconds(2000);
static_assert(kRenewInterval + kTickInterval < kAttendTime && kAttendTime * 2 < kAgentLease);
inline constexpr engine::Duration kSayTime = std::chrono::milliseconds(1500);
// To begin a session, which is recorded durably; it may be asked for again while that goes on.
inline constexpr engine::Duration kBeginTime = std::chrono::seconds(2);
inline constexpr engine::Duration kPauseFirst = std::chrono::milliseconds(5);
inline constexpr engine::Duration kPauseMost = std::chrono::milliseconds(250);
// A question that has no answer is asked again, at first and at the latest.
inline constexpr engine::Duration kAskAgainFirst = std::chrono::milliseconds(500);
inline constexpr engine::Duration kAskAgainMost = std::chrono::seconds(4);
// For how long an agent that closes tries to say so.
inline constexpr engine::Duration kCloseTime = std::chrono::seconds(2);

}  // namespace penstock::holds_net::limits
