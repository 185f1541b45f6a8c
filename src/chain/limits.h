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
// A target is far slower than others, and is reported, if one of its own operations on its disk has
// been under way for so long, and so many times as long as any of who asks: disks that are busy
// with the same work are slow together. The longest pauses of busy disks are shorter, and together
// with what it takes to be believed a chain goes on within 10 s.
inline constexpr auto kStalled = std::chrono::seconds(2);
inline constexpr int kStalledTimes = 4;
// Between two tries.
inline constexpr auto kPeerRetry = std::chrono::milliseconds(50);

// What the controller must know is repeated at this pace.
inline constexpr auto kReportPeriod = std::chrono::milliseconds(500);

// Requests for one chunk that wait together become one update, up to so many bytes of writes: what
// a disk takes in one operation without others having to wait long.
inline constexpr uint64_t kJoinedBytes = kMiB;

// Updates that one chain has pending at a time: what a hello can name. More wait at the head.
inline constexpr size_t kPendingMax = wire::kChainListMax;
// Chunks of which a commit point has heard that an update is durable before it: those that are
// pending, and as many that are still to come. Of more it is told again.
inline constexpr size_t kWordsMax = 2 * kPendingMax;
// Requests that wait at a head; more end with busy.
inline constexpr size_t kWaitingMax = 16'384;
// Bytes that one target holds for requests of clients, in all its chains, where nothing else is
// configured: several of the largest. More end with busy.
inline constexpr uint64_t kHeldBytesMax = 256 * kMiB;
// And bytes that it holds of what other replicas send, at each place that it has in chains, where
// nothing else is configured: what a fast disk and a fast link have under way together. One that is
// larger is alone there. More waits where it is.
inline constexpr uint64_t kPassedBytesMax = 64 * kMiB;
// What buffers for all that keep for the next, beside those in use: as much as a fast disk and a
// fast link have under way. Small ones lie together in memory that is mapped at once.
inline constexpr uint64_t kIdleBufferBytesMax = 64 * kMiB;
inline constexpr uint64_t kBufferSlabBytes = kMiB;
// An update that is pending takes so much beside its bytes and its parts.
inline constexpr uint64_t kPendingBytes = kKiB;

// A client's call that has no deadline: twice as long as a chain may take to go on after a loss.
inline constexpr auto kCallTime = std::chrono::seconds(20);
// A replica that does not answer a client within this time may be lost: the largest request, on a
// busy disk and a slow link.
inline constexpr auto kTryTime = std::chrono::seconds(3);
// A deadline that is later than this is none that anybody waits for.
inline constexpr auto kDeadlineMax = std::chrono::hours(1);
// Reads and updates of so many bytes and more are parts of much.
inline constexpr uint64_t kThroughputBytes = 256 * kKiB;
// Between two tries: at first what a message takes, then as much as a new version of a chain.
inline constexpr auto kAgainFirst = std::chrono::milliseconds(1);
inline constexpr auto kAgainMost = std::chrono::milliseconds(200);
// Calls of one ChainNet: what one client may have under way at a target.
inline constexpr size_t kExchangesMax = wire::kCallsOfClientMax;
// Chunks of which a client is told at a time.
inline constexpr uint32_t kChunksAtOnce = 512;

// And chunks among which a head looks for inodes.
inline constexpr uint32_t kInodesList = 2048;

// Space that a head asks its successors for at a time, where there is enough; each grants at most a
// share of what it has left, as it is in other chains, too.
inline constexpr uint64_t kCreditStep = 16 * kMiB;
inline constexpr uint64_t kCreditShare = 8;
// With less than that left a target has little: a head asks for what it needs, and gives back what
// it has not used for a while.
inline constexpr uint64_t kScarceBytes = 128 * kMiB;
inline constexpr auto kCreditIdle = std::chrono::seconds(1);
// What the store has room for is asked for that often: it may ask the file system.
inline constexpr auto kRoomPeriod = std::chrono::milliseconds(100);
// Is not promised: what a store needs beside updates, as for blocks of which clears leave a part.
inline constexpr uint64_t kSpaceSlack = 512 * kKiB;
// Updates that find no space wait for so long before they are refused: blocks that were replaced
// are free a few commits later.
inline constexpr auto kSpacePatience = std::chrono::milliseconds(1500);
// An update that has a number waits for space that often, a second longer than one without.
inline constexpr uint32_t kSpaceTries = 50;

// Blocks that are healed in one step: those of a block map of a store, and what one call brings.
inline constexpr uint32_t kHealBlocks = wire::kCopyBlocksMax;
// Chunks of a chain whose updates wait for a read or a scrub that has found damage, at a time; and
// those that wait for that. More are left as they are: the next read finds them again.
inline constexpr size_t kHealsAtOnce = 2;
inline constexpr size_t kHealsWaiting = 1024;
// How often another replica is asked that has committed another update: it is about to commit this
// one, or has gone on.
inline constexpr uint32_t kHealTries = 20;
// A healing that does not get its turn within this time is given up: longer than a chain takes to
// go on after a loss.
inline constexpr auto kHealTime = std::chrono::seconds(30);
// Tries of a client's read that each replica has answered with damage: they heal one another
// meanwhile, in some ten milliseconds each.
inline constexpr uint32_t kDamagedTries = 6;

// Chunks of which repair asks for the names at a time.
inline constexpr uint32_t kRepairList = 256;

// Chunks of a chain in which a target has no part any more are looked at, and go, in such lists.
inline constexpr uint32_t kRemainsList = 256;

// Clients that ask for nothing for so long are not at work, and repair need not wait for them:
// longer than a durable write of a busy disk, as of a client that asks for one thing after the
// other.
inline constexpr auto kClientsRest = std::chrono::milliseconds(100);
// Repair rests for half as long as a chunk took, and no longer than that: a disk that stalls is
// reported.
inline constexpr auto kRestMost = std::chrono::seconds(1);
// Before repair asks again for its turn: a fraction of what a chunk takes.
inline constexpr auto kTurnPause = std::chrono::milliseconds(2);

// Records of removed chunks go in the background: so many chunks of a chain are looked at, then
// nothing for HostConfig::tombstone_pause; and so many go at a time. A million chunks take an hour,
// and hardly anything of a disk.
inline constexpr uint32_t kTombstoneList = 256;
inline constexpr size_t kDropsAtOnce = 8;

static_assert(kStalled >= kPeerDeadline, "a call that waits is looked after before that");
static_assert(kHeldBytesMax >= kChunkBytesMax, "the largest request can be served");
static_assert(kPassedBytesMax >= kJoinedBytes, "updates are under way beside one another");
static_assert(2 * kHealBlocks * kBlockBytes <= kPassedBytesMax, "a step of a healing finds memory");
static_assert(kSpaceTries * kPeerRetry > kSpacePatience);
static_assert(kHealTries * kPeerRetry < kHealTime);
static_assert(kRepairList <= wire::kChainListMax);

// Capabilities of single files that a target remembers; who shows one again pays a signature.
inline constexpr size_t kShownMax = 65'536;
// And sessions that may use all files: a few times the nodes that there can be.
inline constexpr size_t kShownSessionsMax = 16'384;
// Signatures that a target verifies for one node: 0.13 ms of its loop each.
inline constexpr uint32_t kShownPerSecond = 256;

}  // namespace penstock::chain::limits
