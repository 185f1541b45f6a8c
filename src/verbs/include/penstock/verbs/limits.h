// Bounds of the protocol between queue pairs and of what one loop holds for it, each with its
// reason.
#pragma once

#include <chrono>

#include "penstock/engine.h"

namespace penstock::verbs::limits {

// A header is fixed, and every message is received whole.
inline constexpr uint32_t kHeaderBytes = 32;

// What one exposed span takes in a request.
inline constexpr uint32_t kSpanBytes = 24;

// The largest message: a request with all its exposures. Each receive buffer has that size.
inline constexpr uint32_t kMessageBytesMax =
    kHeaderBytes + engine::kNetMessageMax + engine::kNetExposuresMax * kSpanBytes;

// One exposed span. The largest operation moves 64 MiB; the rest is room for others.
inline constexpr uint64_t kSpanBytesMax = kGiB;

// What the two sides tell each other before a queue pair is used.
inline constexpr uint32_t kOfferBytes = 48;

// Messages that may be under way to one side of a connection: as many small calls as a round trip
// of a few microseconds takes.
inline constexpr uint32_t kCredits = 32;

// Messages that only return credits and use none. At most two are under way: the second is sent
// when the peer has used half of what the first returned, and for a third it must have got one.
inline constexpr uint32_t kCreditMessages = 2;

// Receive buffers that a connection brings to the queue that all connections of a loop share.
inline constexpr uint32_t kReceivesOfLink = kCredits + kCreditMessages;

// Work requests of a queue pair that have not completed. A call with an exposure has three.
inline constexpr uint32_t kWorkMax = 128;

// Connections of a loop, either way. Their work and receives must fit its completion queue, of
// which soft-RoCE allows 32767 entries.
inline constexpr uint32_t kLinksMax = 128;
// Of these with one node, so that none keeps all others out.
inline constexpr uint32_t kLinksOfNode = kLinksMax / 4;
inline constexpr uint32_t kCompletionsMax = kLinksMax * (kWorkMax + kReceivesOfLink);

// Calls of a connection that its server has not answered yet; those that were given up are among
// them.
inline constexpr uint32_t kCallsMax = 256;

// Calls that a loop's services have in progress, over all connections. Beyond, callers are told
// "busy".
inline constexpr uint32_t kIncomingMax = 4096;

// Windows of a loop: as many as all its connections can have taken, so that a server that never
// answers what was given up takes none from others. They are made when they are needed.
inline constexpr uint32_t kWindowsMax = kLinksMax * kCallsMax * engine::kNetExposuresMax;

// One RDMA write or read: what a small transfer waits for behind a large one. Devices move at least
// 8 MiB by one.
inline constexpr uint32_t kPieceBytesMax = kMiB;

// Pieces of one transfer that are under way, so that it leaves work requests to others.
inline constexpr uint32_t kPiecesMax = 4;

// Bytes of a connection's transfers that are under way: more than any link holds at a time (400
// Gbit/s for 40 us are 2 MB). Messages, and the end of a call, wait behind them.
inline constexpr uint64_t kFlyingBytesMax = 4 * kMiB;

// RDMA reads of a queue pair that a device has under way.
inline constexpr uint8_t kReadsMax = 16;

// Memory that one loop's device holds: what was announced and used, and what calls need now.
inline constexpr uint64_t kPinnedBytesMax = 64 * kGiB;

// Of that, what was announced is registered at once: pinning its pages takes some milliseconds, for
// which the loop stands still. What lies in two such parts is registered for its call.
inline constexpr uint64_t kAnnouncedPartBytes = 64 * kMiB;

// A call that was given up waits so long for its server to stop by itself. A piece of the largest
// size takes a millisecond at 1 GB/s.
inline constexpr std::chrono::milliseconds kReleaseTime{50};

// A call that has ended but for its windows' invalidation ends its connection after so long. It
// completes behind requests that were sent before, and these when they were acknowledged.
inline constexpr std::chrono::seconds kInvalidateTime{3};

// Nothing came for so long: the other side is asked whether it is there, and taken for lost when
// nothing comes still. The transport's own retries are no detector of that (decision 0058).
inline constexpr std::chrono::seconds kPingAfter{2};
inline constexpr std::chrono::seconds kSilenceMax{6};

// How often connections and the device are looked at for that.
inline constexpr std::chrono::milliseconds kLookEvery{250};

// Calls to a node with which no connection came about end at once for so long.
inline constexpr std::chrono::milliseconds kRetryAfter{100};
// And twice as long after each failure, up to this, where calls go another way meanwhile: a node
// without RDMA is asked now and then, as it may have been given some.
inline constexpr std::chrono::seconds kRetryMax{30};

// What the first call of a connection sends and gets back: two packets of the largest size. And how
// long it may take.
inline constexpr uint32_t kTrialBytes = 8 * kKiB;
inline constexpr std::chrono::seconds kTrialTime{3};

// A connection that ends sooner counts as one that did not come about: small messages may get
// through where large transfers do not, as with a switch whose MTU is too small.
inline constexpr std::chrono::seconds kProvenAfter{60};

// Completions that are taken from the device at a time.
inline constexpr uint32_t kPollMax = 64;

static_assert(kCredits >= 4 && kCompletionsMax <= 32767);
static_assert(kSpanBytesMax >= penstock::limits::kIoBytesMax);
static_assert(kPiecesMax < kWorkMax && engine::kNetExposuresMax + 1 < kWorkMax);
static_assert(kCallsMax < kIncomingMax && kCallsMax >= kCredits);
static_assert(kPingAfter < kSilenceMax && kLookEvery < kPingAfter);
static_assert(kReleaseTime < kInvalidateTime && kInvalidateTime < kSilenceMax);

}  // namespace penstock::verbs::limits
