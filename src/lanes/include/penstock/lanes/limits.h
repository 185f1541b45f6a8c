// Bounds of lanes and of transfers to GPU memory, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/connection.h"

namespace penstock::lanes::limits {

// NOLINTNEXTLINE(google-build-using-namespace): one name for all bounds.
using namespace penstock::limits;

// Reads of up to so many bytes are looked for in the node cache: a longer copy would hold up the
// submitting thread for longer than the disk needs to begin.
inline constexpr uint64_t kCacheReadMax = 4 * kMiB;

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

// Where network cards could not bring a file's bytes to GPU memory, as they lie on this node or
// RDMA is not there (yet), it is tried again after so long. Of so many files that is remembered.
inline constexpr std::chrono::seconds kNotByCards{1};
inline constexpr size_t kFilesNotByCards = 4096;

// Lanes with GPU memory that have transfers of their own, each with a thread and a loop; further
// ones share. One loop does 2 million small reads a second, the link of a GPU carries 12. Their
// pinned memory is for what the node cache does not hold: beside that of the first.
inline constexpr uint32_t kLaneTransfersMax = 4;
inline constexpr uint64_t kLaneSlotsBytes = 32 * kMiB;

// Links of a load that have transfers of their own, with a thread each: one would not keep several
// links busy. As many as a node has GPUs, mostly; further ones share.
inline constexpr uint32_t kLinkTransfersMax = 8;
static_assert(kLaneTransfersMax == connection::limits::kRegionTransfersMax);

}  // namespace penstock::lanes::limits
