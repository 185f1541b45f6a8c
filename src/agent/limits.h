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
// hundreds of processes that use it, not thousands. What of these, and of all that sessions hold,
// one user may have is in accounts.cc.
inline constexpr uint32_t kSessionsMax = 1024;
// A session's socket and its process.
inline constexpr uint64_t kSessionDescriptors = 2;
// Descriptors of this process that are shared out at most, whatever its limit is.
inline constexpr uint64_t kDescriptorsMax = 1U << 20;
// Kept open to be given up when there are no others, for whoever must get in all the same: a socket
// and the process at its other end.
inline constexpr uint32_t kSpareDescriptors = 4;
// After this pause connections are looked at again, when there was no descriptor for them.
inline constexpr std::chrono::milliseconds kAcceptPause{100};
// What a session's account is charged with of the agent's heap: for itself, its requests that wait
// and the replies that do; for a ring with its first operations; and for an open file. Memory that
// is mapped for it: what is noted of it here and in the kernel, and a page table of the kernel for
// each so many bytes, as if every page of it were touched here.
inline constexpr uint64_t kSessionHeapBytes = 384 * kKiB;
inline constexpr uint64_t kRingHeapBytes = 16 * kKiB;
inline constexpr uint64_t kFileHeapBytes = 1 * kKiB;
inline constexpr uint64_t kMappedHeapBytes = 1 * kKiB;
inline constexpr uint64_t kBytesPerPageTableByte = 512;
// Requests of a session wait in the socket when so much of them waits here.
inline constexpr size_t kRequestBytesWaitingMax = 64 * kKiB;
// Heap that clients may have together where there is little memory: so much, or a quarter of what
// this process may use if that is less.
inline constexpr uint64_t kClientHeapBytesMin = 256 * kMiB;
// Mappings of memory that are the node's own: programs and libraries, stacks, databases and the
// node cache's slabs. An eighth of what the kernel lets a process have, as it is usually set up.
inline constexpr uint64_t kOwnMappings = 8192;

// The same warning about clients is written once in so long, for so many causes at a time.
inline constexpr std::chrono::minutes kLogEvery{1};
inline constexpr size_t kLogCausesMax = 256;

// Threads that execute control calls. Some are kept free of requests, for the ends of sessions.
inline constexpr uint32_t kWorkers = 16;
inline constexpr uint32_t kWorkersForRequests = 12;
// Of these, what the requests of one user other than root may occupy.
inline constexpr uint32_t kWorkersPerUser = 6;
static_assert(kWorkersPerUser < kWorkersForRequests, "one user cannot stall the others");
// Requests of one session that are executed at once, and that may wait; beyond that its socket is
// not read.
inline constexpr uint32_t kRequestsAtOnceMax = 4;
inline constexpr uint32_t kRequestsWaitingMax = 64;
static_assert(kRequestsAtOnceMax < kWorkersPerUser, "one session cannot stall its user's others");
static_assert(kWorkersForRequests < kWorkers, "a session's end finds a thread");

// How long an application may refuse to read its replies before its session ends, and how often the
// server looks for those.
inline constexpr std::chrono::milliseconds kReplyTimeout{1000};
inline constexpr int kMuteLookMs = 100;

// Operations that one ring has below the agent at a time, over all its lanes; more stay in the
// submission queues.
inline constexpr uint32_t kRingOpsMax = 4096;
// Files that one request for many reads at a time: enough to keep a few drives busy, and
// no flood beside the rings.
inline constexpr uint32_t kFileOpsMax = 128;
// Submissions taken from one lane before the next lane has its turn.
inline constexpr uint32_t kBatch = 16;
static_assert(kBatch <= kRingOpsMax);
// A ring that nobody used for so many turns of its shard dozes, and so many of those that doze are
// looked at in a turn: some 5 microseconds.
inline constexpr uint32_t kTurnsBeforeDoze = 1024;
inline constexpr size_t kDozingPerTurn = 64;
static_assert(ring::kLanesMax <= 64, "a set of lanes is one word");

// Memory of all rings of a session: mapped here for as long as the session lives. Addresses, not
// pages: what the application has not used is not there.
inline constexpr uint64_t kRingBytesMax = 16 * kGiB;

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

// Inodes, and as many names, whose records are kept in memory, some 450 bytes for both: as many as
// the node cache holds files at most, so that what is read from there is found there, too. At least
// what a mount uses, 30 MB of memory; at most half a gigabyte.
inline constexpr size_t kMetaRecordsMin = 64 * 1024;
inline constexpr size_t kMetaRecordsMax = 1024 * 1024;

// Slabs registered with the disks, of the node's buffers: the rest is for regions.
inline constexpr uint32_t kSlabBuffersMax = engine::kDiskBuffersMax / 2;
// A cache has several slabs, so that several classes of readers find room.
inline constexpr uint64_t kCacheSlabs = 8;
inline constexpr uint64_t kSlabBytesMin = 1 * kMiB;
inline constexpr uint64_t kSlabBytesDefault = 64 * kMiB;

// Pieces of foreign memory that are guarded at once (bus_guard.h), over all sessions: more than the
// kernel lets a process map, as it is usually set up (vm.max_map_count, of which sessions have
// shares, too).
inline constexpr uint32_t kGuardsMax = 131072;

// Threads that close foreign descriptors, each of which may hang in a close for ever: of one user,
// so that others find some, and of all. Those that have nothing to do stay up to a few.
inline constexpr uint32_t kCloseThreadsPerUserMax = 16;
inline constexpr uint32_t kCloseThreadsMax = 256;
inline constexpr size_t kCloseThreadsIdleMax = 2;
// A stopping agent waits so long for descriptors to be closed before it leaves them to the kernel.
inline constexpr std::chrono::milliseconds kClosePatience{2000};

// Links of one user in a mount's virtual directory: those of a few processes with as many regions
// as a session may have. What one costs here beside the letters of its names.
inline constexpr uint32_t kLinksPerUserMax = 262144;
inline constexpr uint64_t kLinkHeapBytes = 256;

// Lines of the file of limits: users of one node that root has set something for.
inline constexpr size_t kLimitLinesMax = 65536;

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
