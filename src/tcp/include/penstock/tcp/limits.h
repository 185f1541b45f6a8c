// Bounds of the protocol between nodes, each with its reason.
#pragma once

#include <chrono>

#include "penstock/engine.h"

namespace penstock::tcp::limits {

// A header is fixed, so that whoever reads a stream always knows how much to wait for.
inline constexpr uint32_t kHeaderBytes = 48;

// What one exposed span takes in the message of a request.
inline constexpr uint32_t kExposureBytes = 16;

// The message behind a header: what a receiver must be able to keep of one frame that has not come
// whole yet. A request with all its exposures is the largest.
inline constexpr uint32_t kMessageBytesMax =
    engine::kNetMessageMax + engine::kNetExposuresMax * kExposureBytes;

// Bytes of spans to fetch from that a request brings along, which spares a small write the round
// trip of being asked for them. More would fill a server's memory with what it has not asked for.
inline constexpr uint32_t kInlineBytesMax = 16 * kKiB;

// Payload of one data frame. A sender whose call ends in the middle of a frame has to finish that
// frame from a copy: this bounds the copy, and what a small frame waits for behind a large one.
inline constexpr uint32_t kDataBytesMax = kMiB;

// One exposed span. The largest operation moves 64 MiB; the rest is room for others.
inline constexpr uint64_t kSpanBytesMax = kGiB;

// A proof of identity: a certificate's signature with its chain's names fits.
inline constexpr uint32_t kProofBytesMax = 512;

// The words of a refusal: a line for a log.
inline constexpr uint32_t kReasonBytesMax = 128;

// Calls that one connection may have in progress at its server, where the server allows no fewer.
// Sixteen clients with 64 calls each fill it.
inline constexpr uint32_t kCallsMax = 1024;

// Bytes that a server has asked a connection's caller for (want) and not got yet, in numbers of
// such frames. The caller has to remember them; a server that has more to ask for waits.
inline constexpr uint32_t kWantsMax = 1024;

// From the first attempt to connect to the welcome, over all addresses of a node. A packet may be
// lost once and sent again after a second.
inline constexpr std::chrono::seconds kConnectTime{3};

// From accepting a connection to its whole hello.
inline constexpr std::chrono::seconds kGreetingTime{5};

// Somebody waits for a peer, and nothing came from it for so long: it is asked whether it is there,
// and taken for lost when nothing comes still. Operations are to go on within 10 s of a loss.
inline constexpr std::chrono::seconds kPingAfter{2};
inline constexpr std::chrono::seconds kSilenceMax{6};

// A peer that takes nothing of what is sent to it for so long is not waited for any more: what
// waits for it holds memory that others need.
inline constexpr std::chrono::seconds kStallMax{10};

// A connection without calls is closed by its caller after so long, by its server after twice that.
inline constexpr std::chrono::seconds kIdleMax{60};

static_assert(kPingAfter < kSilenceMax && kSilenceMax < std::chrono::seconds(10));
static_assert(kProofBytesMax + 64 <= kMessageBytesMax, "a hello fits where frames are kept");
static_assert(kReasonBytesMax + 64 <= kMessageBytesMax);
static_assert(kInlineBytesMax <= kDataBytesMax);
static_assert(kSpanBytesMax >= penstock::limits::kIoBytesMax);

}  // namespace penstock::tcp::limits
