// Bounds of this library, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/engine.h"

namespace penstock::controller::limits {

// Nodes send heartbeats that often, and at once when there is something to report. Each is small,
// and a thousand nodes send two thousand a second.
inline constexpr engine::Duration kHeartbeatInterval = std::chrono::milliseconds(500);
// How long a node may serve after it sent an answered heartbeat. A lost node delays others by less
// than half of the 10 s in which data must go on, and a few lost messages cost nobody the lease.
inline constexpr engine::Duration kLease = std::chrono::seconds(4);
// The controller waits this part of a lease longer: the clocks of both may differ by a tenth each
// way, and 1.1 / 0.9 is less than 1.25.
inline constexpr int kLeaseGuardPart = 4;
// The step is given a tick that often.
inline constexpr engine::Duration kTickInterval = std::chrono::milliseconds(250);
// A target that is down for so long is replaced: most restarts and repairs by hand are shorter.
inline constexpr engine::Duration kReplaceAfter = std::chrono::minutes(10);
// How long an accused node stays out of its chains, which have a copy less meanwhile: the first
// time not longer than most troubles of a network last, and twice as long each time that it is
// accused again, so that it does not flap.
inline constexpr engine::Duration kSuspicionFirst = std::chrono::seconds(10);
inline constexpr engine::Duration kSuspicion = std::chrono::minutes(1);
// After so long without being accused it counts as the first time.
inline constexpr engine::Duration kSuspicionForgotten = std::chrono::minutes(10);
// A target that could not do its part in a chain is repaired no sooner than after this time: each
// try makes two versions, and each version pauses the chain for some messages.
inline constexpr engine::Duration kRetryFailed = std::chrono::seconds(2);
static_assert(kHeartbeatInterval * 4 < kLease, "a lease outlives several lost heartbeats");
static_assert(kLease + kLease / kLeaseGuardPart + kTickInterval + kHeartbeatInterval <
                  std::chrono::seconds(10),
              "chains go on within 10 s of a loss");
static_assert(kTickInterval < kHeartbeatInterval);
static_assert(kLease * 2 < kSuspicionFirst && kSuspicionFirst < kSuspicion);
static_assert(kSuspicion < kReplaceAfter && kSuspicion < kSuspicionForgotten);

// How long a controller may grant and commit after it asked for its lease. Its successor waits for
// a quarter more, and then for the leases of nodes: both together let names go on within 20 s.
inline constexpr engine::Duration kControllerLease = std::chrono::seconds(4);
inline constexpr engine::Duration kRenewInterval = std::chrono::milliseconds(500);
// A commit that the Kv is too busy for is tried again so often before the state is given up.
inline constexpr int kCommitTries = 3;
static_assert(kControllerLease + kControllerLease / kLeaseGuardPart + kLease +
                      kLease / kLeaseGuardPart + kRenewInterval + kTickInterval <
                  std::chrono::seconds(20),
              "chains go on within 20 s when the controller is lost with a node");
static_assert(kRenewInterval * 4 < kControllerLease, "a lease outlives several lost renewals");

// The step looks that often for copies that lie unevenly: a move takes longer than that.
inline constexpr engine::Duration kBalanceInterval = std::chrono::seconds(1);
// Moves begin when a target has more chains beyond its share than another, by this and a part of
// its share: sizes of disks that differ from start to start by as much move nothing.
inline constexpr double kWorthMoving = 1.25;
inline constexpr int kUnevenPart = 20;
static_assert(kWorthMoving > 1, "a move makes shares more even, or it would be moved back");
// Chains of one target of which a copy is being made, up to which moves begin: one is sent while
// the other begins or ends, and more would only share the same disk.
inline constexpr size_t kMovesPerTarget = 2;
// Chains that are repaired onto one target at a time, where a copy is missing; moves and drains
// leave it room. The first are whole early, and there is always another whose next chunk is on its
// way.
inline constexpr size_t kRepairsPerTarget = 8;
static_assert(kRepairsPerTarget > kMovesPerTarget, "a copy that is missing is never kept waiting");
// And of all: each makes four versions of a map of which all nodes are told.
inline constexpr size_t kMovesAtOnce = 64;
// Moves that one step begins, and pairs of targets, or of chains, that it looks at for them: it
// takes some milliseconds at most.
inline constexpr size_t kMovesPerLook = 16;
inline constexpr size_t kMovesTriedPerLook = 4096;

// When more than this part of all nodes is missing, but at least one, something else is wrong than
// some nodes: copying their chains to the rest would make it worse. As many may be suspected.
inline constexpr size_t kMissingPart = 10;

// Copies of one chain. More than six make writes slow and lose nothing less.
inline constexpr size_t kCopiesMax = 6;
// Members of one chain: all copies, one replacement of each, and some that are on their way out.
inline constexpr size_t kMembersMax = 16;
static_assert(kMembersMax >= 2 * kCopiesMax);

// A few times what the largest clusters have that are known to us.
inline constexpr size_t kNodesMax = 4096;
inline constexpr size_t kTargetsMax = 65'536;
inline constexpr size_t kChainsMax = 1'000'000;
inline constexpr size_t kTablesMax = 4096;
// What a node tells of itself: a host name, and the cards of the largest machines.
inline constexpr size_t kNameBytesMax = 255;
inline constexpr size_t kCardsMax = 32;

// Sessions of a node's agent are numbered up to this: 48 bits of a word that also names the node.
inline constexpr uint64_t kSessionMost = (uint64_t{1} << 48) - 1;
static_assert(kNodesMax <= UINT16_MAX, "the other 16 bits of that word");

// Tokens at a time, and nodes that one lets in: more than a person hands out.
inline constexpr size_t kTokensMax = 1024;
inline constexpr uint32_t kTokenUsesMax = 1024;
// Keys by which capabilities were signed that are still believed: one of each start of the process
// with the names, and of each day.
inline constexpr size_t kSigningKeysMax = 16;
// How long a token is shown after its end.
inline constexpr std::chrono::hours kTokenShown{24};

// Chains that one step looks at; the rest has to wait for the next, which follows at once. It
// bounds a step to a few milliseconds when many nodes are lost together.
inline constexpr size_t kSettledPerStep = 2048;
// New members that one step chooses; the rest waits for the next tick. A choice looks at every
// target.
inline constexpr size_t kChoicesPerStep = 32;

}  // namespace penstock::controller::limits
