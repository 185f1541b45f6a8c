// Bounds of what carries the protocol, each with its reason.
#pragma once

#include <chrono>

#include "penstock/tcp/limits.h"
#include "penstock/tls.h"

namespace penstock::tcp::limits {

// Submissions that are prepared before the kernel is entered, and completions that it keeps before
// it has to put them aside.
inline constexpr uint32_t kRingEntries = 1024;
inline constexpr uint32_t kRingCompletions = 8192;

// Memory of a loop that bytes arrive in before it is known where they belong. A connection holds
// one only while its bytes are looked at, so they are as many as one turn may find full; who finds
// none asks again in the next turn.
inline constexpr uint32_t kStagedBytes = 64 * kKiB;
inline constexpr uint32_t kStagedBuffers = 32;

// What is left of a payload goes straight to its place from here on. Below, one more system call
// costs more than the copy.
inline constexpr uint32_t kDirectBytesMin = 16 * kKiB;

// While large payloads follow one another, so much is received into staging memory: a response and
// the next header, and little of the payload, as all of that has to be copied.
inline constexpr uint32_t kStagedBytesShort = 4 * kKiB;

// One send: small frames are gathered in memory, large payload is sent from where it lies. The sum
// bounds what has to be copied when a call ends while its bytes are being sent.
inline constexpr uint32_t kBatchBytes = 64 * kKiB;
inline constexpr uint32_t kBatchPieces = 64;
inline constexpr uint64_t kBatchPayloadMax = kMiB;

// A connection whose records the kernel makes goes after so many, as it does not renew their keys;
// this is looked at every kLookEvery, in which no processor makes a million.
inline constexpr uint64_t kRecordsOfKernel = tls::limits::kRecordsOfKey - kMiB;

// Records that a sealed connection sends at a time, or receives of a large payload: 16 of the
// largest behind one of small frames. With fewer, system calls and acknowledgements count; with
// more, who opens the records of a single read waits for who seals them.
inline constexpr uint32_t kSealedBytes =
    17 * (tls::limits::kContentMax + tls::limits::kRecordExtraBytes);

// Of a loop: 68 MiB. A connection holds one while it sends; and, with helpers, another one while
// more than half are free.
inline constexpr uint32_t kSealedMax = 256;

// As large, for records of large payloads that come: 17 MiB of a loop. A connection holds one until
// its payload is whole, and another one in the same way; who finds none receives into staging
// memory as before.
inline constexpr uint32_t kOpenedMax = 64;

// From so many records of the largest size on, one after the other, threads that help share them:
// what is gathered of small frames, or received into staging memory, has fewer.
inline constexpr uint32_t kSharedRecordsMin = 8;

// Threads of a process that help: three quarter what the cipher takes, so that the socket takes
// more; and at most one for so many processors, as other loops and processes want some.
inline constexpr uint32_t kHelpersMax = 3;
inline constexpr uint32_t kProcessorsOfHelper = 4;

// A helper looks for more to do for so long before it sleeps: in a large transfer the next records
// are there by then.
inline constexpr std::chrono::microseconds kHelperSpin{50};

// A record takes a few microseconds. Whoever waits so much longer for the last one has had a helper
// that lost its processor; and whoever is helped by none for so many times in a row had better not
// have called. Then nobody is helped for a while, and longer if it comes again.
inline constexpr std::chrono::microseconds kHelperWait{100};
inline constexpr uint32_t kFruitlessMax = 8;
inline constexpr std::chrono::milliseconds kRestMin{100};
inline constexpr std::chrono::milliseconds kRestMax{2000};

// Batches of a loop: 64 MiB. A connection holds two at most, and none while it has nothing to send;
// who finds none waits for its turn.
inline constexpr uint32_t kBatchesMax = 1024;

// Payload up to this is copied into a batch, and its transfer ends at once.
inline constexpr uint32_t kCopyBytesMax = 16 * kKiB;

// Calls that a loop's services have in progress, over all connections: 11 MiB of messages. Beyond,
// callers are told "busy". While half of them are taken, a connection gets no more than its share,
// so that some greedy ones leave room for all others.
inline constexpr uint32_t kIncomingMax = 8192;
inline constexpr uint32_t kIncomingShare = 64;

// Requests of a loop whose inline bytes are kept; of others they are dropped, and asked for.
inline constexpr uint32_t kInlineBuffersMax = 512;

// Connections of a loop that others opened, and sockets whose greeting has not come yet. Of the
// latter the oldest goes when another comes: who greets at once gets through whoever else does not.
inline constexpr uint32_t kConnectionsMax = 16384;
inline constexpr uint32_t kGreetingsMax = 1024;

// Of these connections so many are guests', who are strangers: when another comes, the oldest goes.
inline constexpr uint32_t kGuestsMax = 64;

// Handshakes of callers that go on at a time in a process: each may hold some 50 KiB of OpenSSL's.
// Who has said nothing yet does not count.
inline constexpr size_t kHandshakesMax = 512;

// So many of them begin before those that have begun go on: 10 to 20 ms of the thread.
inline constexpr size_t kHandshakesBegun = 16;
static_assert(kHandshakesBegun < kHandshakesMax);

// Where all these are taken, the oldest gives way when it has begun so long ago: whoever answers at
// all, also beside hundreds of its own, has done so by then. Of kGreetingsMax that never do, the
// last one is waited for no longer than that again, and less than limits::kConnectTime.
inline constexpr std::chrono::seconds kHandshakeAlone{1};
static_assert(kHandshakeAlone * kGreetingsMax / kHandshakesMax < kConnectTime);

// A cause for which callers are refused is logged once in so long; and so many are told apart.
inline constexpr std::chrono::minutes kSameCausePause{1};
inline constexpr size_t kCausesMax = 64;

// Connections that the kernel keeps until they are accepted.
inline constexpr int kBacklog = 4096;

// How often all connections of a loop are looked at for what has taken too long.
inline constexpr std::chrono::milliseconds kLookEvery{250};

// Pause after a failed attempt to connect, doubled with each up to the most. Calls meanwhile end
// with peer_gone at once.
inline constexpr std::chrono::milliseconds kRetryFirst{20};
inline constexpr std::chrono::milliseconds kRetryMax{1000};

// Socket addresses of one node that are tried one after the other.
inline constexpr uint32_t kAddressesMax = 8;

static_assert(kDirectBytesMin <= kStagedBytes && kStagedBytesShort < kStagedBytes);
static_assert(kBatchBytes / tls::limits::kContentMax < kSharedRecordsMin &&
              kStagedBytes / tls::limits::kContentMax < kSharedRecordsMin);
static_assert(kStagedBytesShort > kHeaderBytes + kMessageBytesMax);
static_assert(kCopyBytesMax + kHeaderBytes <= kBatchBytes, "a small payload fits a batch");
static_assert(kHeaderBytes + kMessageBytesMax + kInlineBytesMax <= kBatchBytes,
              "a request fits a batch");
static_assert(kDataBytesMax <= kBatchPayloadMax, "so does a frame of data");
static_assert(kIncomingMax >= 2 * kCallsMax);

}  // namespace penstock::tcp::limits
