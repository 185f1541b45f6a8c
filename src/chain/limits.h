// Bounds of chains, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/wire.h"

namespace penstock::chain::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// A neighbour that does not answer within this time is asked again, and reported: several times
// what a loaded disk takes, and a fraction of a lease.
inline constexpr auto kPeerDeadline = std::chrono::milliseconds(1000);
// Between two tries.
inline constexpr auto kPeerRetry = std::chrono::milliseconds(50);

// What the controller must know is repeated at this pace.
inline constexpr auto kReportPeriod = std::chrono::milliseconds(500);

// Requests for one chunk that wait together become one update, up to so many bytes of writes: what
// a disk takes in one operation without others having to wait long.
inline constexpr uint64_t kJoinedBytes = kMiB;

// Updates that one chain has pending at a time: what a hello can name. More wait at the head.
inline constexpr size_t kPendingMax = wire::kChainListMax;
// Requests that wait at a head; more end with busy.
inline constexpr size_t kWaitingMax = 16'384;
// Bytes that one target holds for requests of clients, in all its chains, where nothing else is
// configured: several of the largest. More end with busy.
inline constexpr uint64_t kHeldBytesMax = 256 * kMiB;

// A client's call that has no deadline: twice as long as a chain may take to go on after a loss.
inline constexpr auto kCallTime = std::chrono::seconds(20);
// A replica that does not answer a client within this time may be lost: the largest request, on a
// busy disk and a slow link.
inline constexpr auto kTryTime = std::chrono::seconds(3);
// Between two tries: at first what a message takes, then as much as a new version of a chain.
inline constexpr auto kAgainFirst = std::chrono::milliseconds(1);
inline constexpr auto kAgainMost = std::chrono::milliseconds(200);
// Calls of one ChainNet: what one client may have under way at a target.
inline constexpr size_t kExchangesMax = wire::kCallsOfClientMax;
// Chunks of which a client is told at a time.
inline constexpr uint32_t kChunksAtOnce = 512;

// Chunks of which repair asks for the names at a time.
inline constexpr uint32_t kRepairList = 256;

static_assert(kHeldBytesMax >= kChunkBytesMax, "the largest request can be served");
static_assert(kRepairList <= wire::kChainListMax);

}  // namespace penstock::chain::limits
