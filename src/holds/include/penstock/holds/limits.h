// Bounds of this library that its users see.
#pragma once

#include <chrono>
#include <cstddef>

#include "penstock/engine.h"

namespace penstock::holds::limits {

// An agent that is lost holds up others for this, the guard, its fence and a round of ticks: within
// the 10 s in which data must go on. A few lost renewals cost nobody the lease.
inline constexpr engine::Duration kAgentLease = std::chrono::seconds(5);
inline constexpr engine::Duration kRenewInterval = std::chrono::seconds(1);
// The table waits so much longer, as clocks may differ by a tenth each way.
inline constexpr engine::Duration kLeaseGuard = kAgentLease / 4;
// What a fence takes: a version of the map, and heads that say that nothing is pending.
inline constexpr engine::Duration kFenceMost = std::chrono::milliseconds(2500);
inline constexpr engine::Duration kTickInterval = std::chrono::milliseconds(250);
static_assert(kRenewInterval * 4 < kAgentLease, "a lease outlives several lost renewals");
static_assert(kAgentLease + kLeaseGuard + kFenceMost + kTickInterval <= std::chrono::seconds(10),
              "a lost agent holds nobody up for longer");

// Who renews and does not answer is given what a call to a chain may take, and then some.
inline constexpr engine::Duration kAnswerMost = std::chrono::seconds(25);
static_assert(kAnswerMost > kAgentLease + kLeaseGuard, "who is lost ends by its lease");

// An exclusive hold that comes and is wanted back at once is used for so long, while one operation
// follows another: to give it on costs milliseconds, and writers on two nodes would write once in
// each turn. It goes as soon as it was not used for a while; looked at now and then. Where staying
// was of no use, it is not tried again the next few times.
inline constexpr engine::Duration kStayMost = std::chrono::milliseconds(10);
inline constexpr engine::Duration kStayUnused = std::chrono::milliseconds(1);
inline constexpr engine::Duration kStayLook = std::chrono::milliseconds(1);
inline constexpr uint8_t kStaysLeftOut = 7;

// A directory whose names another has changed is given to nobody for so long: a recall for each
// name costs more than the questions in between.
inline constexpr engine::Duration kCalmAfter = std::chrono::seconds(1);
// Holders of a directory that are told of each name; more give it back instead.
inline constexpr size_t kToldMost = 16;

// Some 300 bytes each. An agent that wants more gives back what it has had longest.
inline constexpr size_t kHoldsOfAgentMax = 1'000'000;
// Requests of one agent that wait: as many as it has threads, queues of rings and mounts together.
inline constexpr size_t kWaitingOfAgentMax = 65'536;
// Inodes of one change: directories, and what is moved or loses a name; of many files made at once.
inline constexpr size_t kBarrierPartsMax = 2048;

}  // namespace penstock::holds::limits
