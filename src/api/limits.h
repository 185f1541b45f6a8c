// Bounds of the application's side, each with its reason.
#pragma once

#include <chrono>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/ring.h"
#include "penstock/wire.h"

namespace penstock::api::limits {

using namespace penstock::limits;

// How long a control call waits for its reply. Long, as an fsync of a large file may take long; the
// death of the agent ends it at once.
inline constexpr std::chrono::seconds kCallTimeout{120};

// After an agent's death: for how long its successor is waited for (PENSTOCK_RECONNECT_SECONDS in
// the environment changes it for sessions made later, up to the maximum), and how often it is
// looked for.
inline constexpr std::chrono::seconds kReconnectTimeout{10};
inline constexpr std::chrono::seconds kReconnectTimeoutMax{3600};
inline constexpr std::chrono::milliseconds kReconnectPauseMin{5};
inline constexpr std::chrono::milliseconds kReconnectPauseMax{200};
// One step of setting a session up again.
inline constexpr int kSetupStepMs = 5000;

// How long a request waits for room in the socket. An agent that lives reads at once.
inline constexpr long kSendTimeoutSeconds = 30;

// Control calls in flight of one session; more callers wait. Half of what an agent holds for one
// session, so that it never stops reading.
inline constexpr uint32_t kCallsMax = 32;

// Reads of up to so many bytes are looked for in the node cache: a longer copy would hold up the
// submitting thread for longer than the disk needs to begin.
inline constexpr uint64_t kCacheReadMax = 4 * kMiB;
// Cache lines of the next read that are asked for while the one before it is copied.
inline constexpr size_t kPrefetchLines = 8;
// Hits of one lane from one note for the agent to the next: a note costs as much as a look-up when
// several threads write theirs.
inline constexpr uint32_t kHitsPerTouch = 4;

// Looks at the completion queue before a waiting thread sleeps: a few microseconds, about what
// sleeping and waking cost. They become fewer while sleeps are longer than that.
inline constexpr uint32_t kSpinLooks = 100;
inline constexpr uint64_t kSpinNanoseconds = 5000;

// Ends of host reads that are taken in one turn of the transfers' loop. A checksum of 1 MiB takes
// 70 us where its bytes come from memory: each read's copy begins, and ends, beside the next ones.
inline constexpr uint32_t kSourceTake = 1;

// Pieces of one list: what a few launches of the gather kernel take.
inline constexpr uint32_t kGatherPiecesMax = 65536;

// Pinned memory of a session that uses GPUs, through which bytes of disks go: as much as keeps a
// few fast drives busy. Reads in flight below it: what that memory holds in small slots, and more.
inline constexpr uint64_t kTransferSlotsBytes = 64 * kMiB;
inline constexpr uint32_t kTransferEntries = 1024;

}  // namespace penstock::api::limits
