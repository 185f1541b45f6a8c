// Bounds of probes, each with its reason.
#pragma once

#include <chrono>

#include "penstock/base.h"

namespace penstock::probe::limits {

// One place or fetch: the largest piece that chains move at a time.
inline constexpr uint32_t kBytesMax = kMiB;
// Of one caller, at a time: 64 small calls, or 16 of the largest. Beyond, it is told "busy".
inline constexpr uint32_t kCallsOfPeer = 64;
inline constexpr uint64_t kBytesOfPeer = 16 * kMiB;
// Of all callers: what a node gives for being measured, however many come.
inline constexpr uint32_t kCallsMax = 256;
inline constexpr uint64_t kBytesOfAll = 64 * kMiB;

// What a node says of itself, or of the ways that it has measured.
inline constexpr uint32_t kDocumentMax = 64 * kKiB;
// Parts of these documents: more than machines have, and little for who reads them.
inline constexpr size_t kCardsMax = 64;
inline constexpr size_t kDevicesMax = 64;
inline constexpr size_t kWaysMax = 16;
inline constexpr size_t kReasonsMax = 8;
inline constexpr size_t kWordBytesMax = 80;
inline constexpr size_t kTextBytesMax = 512;

// Of one way, as whoever asks says it; a node that is asked measures no longer.
inline constexpr std::chrono::milliseconds kTimeMin{10};
inline constexpr std::chrono::milliseconds kTimeMax{10'000};

// The first call has to find a connection: TCP gives an attempt 3 s, and says then why it failed.
inline constexpr std::chrono::seconds kReachTime{5};
// Any later one: whoever does not answer for so long is not measured.
inline constexpr std::chrono::seconds kCallTime{4};
// After "busy" a call is repeated.
inline constexpr std::chrono::milliseconds kBusyPause{10};
// Calls of which times are kept for the median: a second of them at 15 us each.
inline constexpr size_t kSamplesMax = 65'536;
// Operations at once of one workload.
inline constexpr uint32_t kDepthMax = 64;

static_assert(kBytesOfPeer >= 8 * uint64_t{kBytesMax}, "a measurement is not refused by itself");
static_assert(kBytesOfPeer <= kBytesOfAll && kCallsOfPeer <= kCallsMax);
static_assert(kDepthMax <= kCallsOfPeer);

}  // namespace penstock::probe::limits
