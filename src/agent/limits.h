// Bounds of the agent, each with its reason.
#pragma once

#include <chrono>
#include <cstdint>

#include "penstock/engine.h"
#include "penstock/ring.h"
#include "penstock/wire.h"

namespace penstock::agent::limits {

using namespace penstock::limits;

// Sessions at once. Each costs a socket, a descriptor of its process, and some tables; a node has
// hundreds of processes that use it, not thousands.
inline constexpr uint32_t kSessionsMax = 1024;
// Of these, made by one user who is not root: one user cannot keep all others out.
inline constexpr uint32_t kSessionsPerUserMax = 512;

// Threads that execute control calls. Some are kept free of requests, for the ends of sessions.
inline constexpr uint32_t kWorkers = 8;
inline constexpr uint32_t kWorkersForRequests = 6;
// Requests of one session that are executed at once, and that may wait; beyond that its socket is
// not read.
inline constexpr uint32_t kRequestsAtOnceMax = 4;
inline constexpr uint32_t kRequestsWaitingMax = 64;
static_assert(kRequestsAtOnceMax < kWorkersForRequests, "one session cannot stall the others");
static_assert(kWorkersForRequests < kWorkers, "a session's end finds a thread");

// How long an application may refuse to read a reply before its session ends.
inline constexpr int kReplyTimeoutMs = 1000;

// Operations that one ring has below the agent at a time, over all its lanes; more stay in the
// submission queues.
inline constexpr uint32_t kRingOpsMax = 4096;
// Submissions taken from one lane before the next lane has its turn.
inline constexpr uint32_t kBatch = 16;
static_assert(kBatch <= kRingOpsMax);
static_assert(ring::kLanesMax <= 64, "a set of lanes is one word");

// Memory of all rings of a session: mapped here for as long as the session lives.
inline constexpr uint64_t kRingBytesMax = 1 * kGiB;

// The node cache: fills under way of one shard, enough to keep a drive's queue from running dry;
// and fewer while rings have so many reads and writes under way that fills would hold them up.
inline constexpr uint32_t kFillsMax = 16;
inline constexpr uint32_t kFillsMaxBesideOthers = 4;
inline constexpr uint32_t kOthersMax = 32;
// For so long an application believes the memory of a cache whose agent it does not hear of, and
// for so long the successor of an agent that was killed serves nobody; and how often the agent says
// that it lives.
inline constexpr std::chrono::milliseconds kCacheLease{500};
inline constexpr std::chrono::milliseconds kCacheLeaseRenewal{150};
static_assert(kCacheLeaseRenewal * 3 <= kCacheLease, "a late thread does not end the lease");

// Slabs registered with the disks, of the node's buffers: the rest is for regions.
inline constexpr uint32_t kSlabBuffersMax = engine::kDiskBuffersMax / 2;
// A cache has several slabs, so that several classes of readers find room.
inline constexpr uint64_t kCacheSlabs = 8;
inline constexpr uint64_t kSlabBytesMin = 1 * kMiB;
inline constexpr uint64_t kSlabBytesDefault = 64 * kMiB;

// Pieces of foreign memory that are guarded at once (bus_guard.h), over all sessions.
inline constexpr uint32_t kGuardsMax = 16384;

// Foreign descriptors that wait to be closed before no more are accepted.
inline constexpr uint32_t kClosingMax = 256;

// Links of one user in a mount's virtual directory.
inline constexpr uint32_t kLinksPerUserMax = 4096;

// GPU memory that is published at once. Each may hold a descriptor, of which a process often has no
// more than a few thousand; programs publish a few large pieces, not many small ones.
inline constexpr uint32_t kPublishedMax = 1024;
// Of these, by one user who is not root, and by one session.
inline constexpr uint32_t kPublishedPerUserMax = 512;
inline constexpr uint32_t kPublishedPerSessionMax = 256;

// Free bytes that a file system must have for a store to be opened or made in it: enough for the
// logs of the databases to be written.
inline constexpr uint64_t kFreeBytesToOpen = 8 * kMiB;
inline constexpr uint64_t kFreeBytesToCreate = 64 * kMiB;

}  // namespace penstock::agent::limits
