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
// For so long a caller looks for the reply itself before it sleeps: what calls take that wait for
// nothing, as the sleep and the two wake-ups that it spares cost about as much.
inline constexpr std::chrono::microseconds kReplyLook{60};

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

// For how long the end of a session, or a new ring for kernels, waits for the driver to give memory
// of the node cache back: that takes it a while where there is much, and without limit while
// kernels run.
inline constexpr std::chrono::seconds kReapWait{5};

// Pieces of one list: what a few launches of the gather kernel take.
inline constexpr uint32_t kGatherPiecesMax = 65536;

// Pinned memory of a session that uses GPUs, through which bytes of disks go: as much as keeps a
// few fast drives busy. Reads in flight below it: what that memory holds in small slots, and more.
inline constexpr uint64_t kTransferSlotsBytes = 64 * kMiB;
inline constexpr uint32_t kTransferEntries = 1024;

// Lanes with GPU memory that have transfers of their own, each with a thread and a loop; further
// ones share. One loop does 2 million small reads a second, the link of a GPU carries 12. Their
// pinned memory is for what the node cache does not hold: beside that of the first.
inline constexpr uint32_t kLaneTransfersMax = 4;
inline constexpr uint64_t kLaneSlotsBytes = 32 * kMiB;

// Links of a load that have transfers of their own, with a thread each: one would not keep several
// links busy. As many as a node has GPUs, mostly; further ones share.
inline constexpr uint32_t kLinkTransfersMax = 8;

// Files of other file systems: threads that read for each link of a load, and how many different
// numbers of them one process may use, as each keeps its transfers. On a machine with many
// processors half of them, up to the latter: 16 copy 39 GB/s out of tmpfs where 8 copy 25, and more
// than 16 no more.
inline constexpr uint32_t kLocalThreads = 8;
inline constexpr uint32_t kLocalThreadsMany = 16;
inline constexpr uint32_t kLocalThreadsMax = 256;
inline constexpr size_t kLocalSettingsMax = 4;

// What a load or save with a deadline gets beyond it, to end in order: to cancel, close and remove.
inline constexpr std::chrono::seconds kGrace{5};

// Host memory between a session's files and the headers, or host tensors, of models.
inline constexpr uint64_t kHostStepBytes = 4 * kMiB;

// Rings for kernels of one session: more would make each turn of their thread longer.
inline constexpr uint32_t kDeviceRingsMax = 64;
// Requests of one ring that are looked up side by side: enough for the memory's latency to be
// hidden, few enough for the first to be answered soon.
inline constexpr uint32_t kDeviceRingBatch = 64;
// For how long their thread polls after the last request: a kernel that works on what it got asks
// again by then. Its sleeps, between which it looks, are a part of how long nobody has asked, so
// that a kernel is found late by no more than that; they end where looking costs less than a
// hundredth of a processor.
inline constexpr std::chrono::microseconds kDeviceRingSpin{100};
inline constexpr int kDeviceRingSleepPart = 16;
inline constexpr std::chrono::microseconds kDeviceRingSleepMin{10};
inline constexpr std::chrono::microseconds kDeviceRingSleepMax{1000};
// For how long the thread stays awake for a kernel that is said to come: a launch, and some work.
inline constexpr std::chrono::microseconds kDeviceRingAwake{2000};
// For how long kernels are waited for that must leave a ring that is closed, or all rings of a
// session: their naps, and the copies that they are at, take far less.
inline constexpr std::chrono::seconds kDeviceRingDrain{1};
// For how long nobody may have waited in it then: what a kernel works between two requests.
inline constexpr std::chrono::milliseconds kDeviceRingQuiet{20};

// Lists of files: one piece of memory through which bytes go that are wanted in plain memory or on
// a GPU, for each thread at a time; rooms above that size are not taken for the size of the file;
// threads that work on one long list, each with a request under way; and as many files are worth
// one more thread. A kernel copies more files than that out of the memory: the copy engine takes
// as long for each as for 200 KiB.
inline constexpr uint64_t kStagingBytes = 8 * kMiB;
inline constexpr uint64_t kStagedUnseenMax = 32 * 1024;
inline constexpr uint32_t kListThreadsMax = 4;
inline constexpr size_t kFilesPerListThread = 64;
inline constexpr size_t kStagedCopiesByEngine = 8;
// Files that are asked for together while they come from the disk.
inline constexpr size_t kListFilesFromDisk = 128;

}  // namespace penstock::api::limits
