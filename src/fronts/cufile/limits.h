// Bounds of the cuFile front, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::cufile::limits {

using namespace penstock::limits;

// Registered files: as many as a source of local files knows.
inline constexpr uint32_t kFilesMax = 16384;

// Registered buffers: programs register one for each tensor or thread.
inline constexpr size_t kBuffersMax = 1U << 20;

// Ranges that a thread remembers, so that it need not ask the driver whose memory they are.
inline constexpr size_t kRangesRemembered = 4;

// Pinned memory between files and GPUs: a few fast drives, or eight threads that copy from the page
// cache, are kept busy by it.
inline constexpr uint64_t kSlotsBytes = 64 * kMiB;

// Batches at a time; each holds memory for its operations.
inline constexpr uint32_t kBatchesMax = 1024;

// Streams known, and operations that wait in them or are carried out.
inline constexpr size_t kStreamsMax = 65536;
inline constexpr uint32_t kStreamOperationsMax = 16384;

// Pages of files that may be pinned, for GPUs to copy from: this share of the machine's memory, as
// other programs cannot use them meanwhile, and no more than is worth it.
inline constexpr uint64_t kPinnedShare = 4;
inline constexpr uint64_t kPinnedBytesMax = 256 * kGiB;

// A session with a mount's agent: threads that wait for their own operations (others wait for one
// of them), and entries of each.
inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kLaneEntries = 256;

// How often a session without an agent is asked for the last ends.
inline constexpr std::chrono::milliseconds kDeadSessionPause{5};

// Regions of GPU memory that a session remembers; programs that register no buffers use new ranges
// again and again. Half of those that it can have: operations may hold as many that are not
// remembered any more.
inline constexpr size_t kRegionsMax = 512;

// A small read goes by a mailbox when it begins so soon after the end of the thread's last one, and
// so many did before it: a program that reads now and then has no kernel linger on its GPU.
inline constexpr std::chrono::microseconds kSmallReadGap{10};
inline constexpr uint32_t kSmallReadStreak = 16;
// From this length on the kernel may fetch the bytes from pinned pages of the page cache; fewer are
// copied sooner by the thread, as memory that the GPU has not touched for a while takes it longer.
inline constexpr uint64_t kPinnedReadMin = 8 * kKiB;
// A copy by the thread counts for so many bytes of one by the mover before a part of a file is
// worth pinning: with pinned pages four threads that read 16 to 64 KiB at a time are 1.3 to 1.6
// times as fast, also where nothing is read twice, while the larger reads of the mover lose by it.
inline constexpr uint64_t kCopyWeight = 16;
// Of small reads whose pages are not pinned the mover gets one in so many: it sees what is read
// again, and has that pinned. After each such read that finds nothing pinned later, the mover gets
// one in twice as many.
inline constexpr uint32_t kUnpinnedReadsMin = 32;
inline constexpr uint32_t kUnpinnedReadsMax = 1024;
// A longer read goes by the mover if that has no other one: the thread would copy its bytes twice,
// which takes longer.
inline constexpr uint64_t kMailboxBestBytes = 32 * kKiB;
// Mailboxes are not tried again for so long when programs' kernels fill the GPU (the trial took 200
// us), or when none could be made.
inline constexpr std::chrono::milliseconds kFullGpuPause{10};
inline constexpr std::chrono::seconds kNoMailboxPause{1};

// Counters of the threads that are inside the driver: each on a cache line of its own, so that
// threads that read small pieces do not wait for one another there. All of them are looked at when
// it closes.
inline constexpr uint32_t kUserCounters = 16;

// Threads for host memory in batches and streams.
inline constexpr uint32_t kHostThreads = 4;

}  // namespace penstock::cufile::limits
