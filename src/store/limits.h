// Bounds of a target, each with its reason.
#pragma once

#include <chrono>

#include "penstock/base.h"

namespace penstock::store::limits {

using penstock::limits::kBlockBytes;
using penstock::limits::kChunkBytesMax;

// Blocks of one block map. 64 make a map three quarters of a kilobyte, the least that a KV store
// moves well, and give one map to each 256 KiB.
inline constexpr uint32_t kMapBlocks = 64;
inline constexpr uint64_t kMapBytes = kMapBlocks * kBlockBytes;
inline constexpr uint32_t kChunkBlocksMax = kChunkBytesMax / kBlockBytes;
inline constexpr uint32_t kChunkMapsMax = kChunkBlocksMax / kMapBlocks;

// Reads, writes and clears in progress; more wait in order. Enough to keep any drive busy.
inline constexpr uint32_t kOpsMax = 1024;
// An operation on up to a MiB, aligned or not, keeps its blocks in its own context; larger ones
// share a few large arrays.
inline constexpr uint32_t kInlineBlocks = 320;
inline constexpr uint32_t kInlineMaps = 6;
inline constexpr uint32_t kLargeOps = 32;

// One data file: small enough for any file system, few enough to keep all of them open.
inline constexpr uint32_t kDataFileBlocks = 1 << 18;
inline constexpr uint32_t kDataFilesMax = 16384;

// The largest run that the allocator hands out whole: 64 MiB, a chunk of the largest size.
inline constexpr uint32_t kOrderMax = 14;
// Data files grow in such steps (less when the file system is nearly full) before they must.
inline constexpr uint32_t kGrowBlocks = 1 << kOrderMax;
inline constexpr uint32_t kGrowBlocksMin = 256;
// What is left free on the file system below unless the configuration says otherwise, for logs,
// tables and compactions of databases: a share of it, and no more than twelve of the largest write
// buffers, which is what they take at most.
inline constexpr uint64_t kReserveShare = 8;
inline constexpr uint64_t kReserveBytesMin = 24 * penstock::kMiB;
inline constexpr uint64_t kReserveBytesMax = 384 * penstock::kMiB;
// After the file system had no room, so long nothing is tried.
inline constexpr std::chrono::milliseconds kGrowRetryDelay{100};
inline constexpr uint32_t kGrowAheadBlocks = 2 * kGrowBlocks;
// Writes leave so many blocks free for clears, which copy up to two blocks in order to free more.
inline constexpr uint32_t kClearReserveBlocks = 64;

// Disk operations of this target in progress, and of one request.
inline constexpr uint32_t kIosMax = 2048;
inline constexpr uint32_t kIosPerRequest = 64;
// Aligned buffers for what cannot go straight between the disk and the caller's memory: all writes,
// and reads of parts of blocks. Together as much as keeps any drive busy, in pieces that fit a
// processor's cache while they are copied and checked. Pages that were never needed cost nothing.
inline constexpr uint32_t kStageBlocks = 16;
inline constexpr uint64_t kStageBytes = kStageBlocks * kBlockBytes;
inline constexpr uint32_t kStages = 512;

// Block maps read from the KV store by one transaction, and such transactions in progress.
inline constexpr uint32_t kLoadMaps = 64;
inline constexpr uint32_t kLoads = 32;

// A commit starts by itself when so many maps have changed, or so long after the first change;
// updates wait when one group holds more than the maximum, so that a commit stays below 5 MiB.
inline constexpr uint32_t kGroupMapsStart = 1024;
inline constexpr uint32_t kGroupMapsMax = 6144;
inline constexpr std::chrono::milliseconds kCommitDelay{200};
// So does one with so many bytes of records of chains. The record of one update is less.
inline constexpr uint64_t kGroupChainBytes = 2 * penstock::kMiB;
// Groups in all, and those that sync at a time: one, unless the next has so many blocks that it is
// worth a sync of its own. A few keep the disk busy with data while others wait for their syncs.
inline constexpr uint32_t kGroups = 12;
inline constexpr uint32_t kGroupsSyncing = 6;
inline constexpr uint32_t kGroupBlocksLarge = 128;
// Transactions at a time: as many as a KV store has threads at least. What is ready meanwhile goes
// together into the next.
inline constexpr uint32_t kCommitsAtOnce = 2;
// Bits for the inodes of a group that have changes beside the log. A wrong hit is merely slow.
inline constexpr uint32_t kGroupInodes = 1024;
inline constexpr uint32_t kGroupSyncs = 16;  // data files synced at a time
// A commit that the KV store refuses as busy is tried again so often before the target gives up.
inline constexpr int kCommitAttemptsMax = 8;
// While the KV store has no room for a commit it is tried again at this pace. For so long
// operations that wait for it are left to wait: the KV store makes room itself now and then, by
// compaction.
inline constexpr std::chrono::milliseconds kCommitRetryDelay{100};
inline constexpr std::chrono::milliseconds kCommitPatience{1000};

// The log of durable writes takes writes of 64 KiB, aligned or not: writing the bytes of larger
// ones twice costs more than it spares.
inline constexpr uint32_t kLogBlocks = 17;
// A record holds what began in a turn or two of the loop; a small file has shorter ones.
inline constexpr uint32_t kLogRecordBytes = 512 * penstock::kKiB;
// Of the file. With the usual size a fast drive fills half of it in a tenth of a second, and it is
// read in no time; a small file system gives a share.
inline constexpr uint64_t kLogBytesMin = 64 * penstock::kKiB;
inline constexpr uint64_t kLogBytes = 32 * penstock::kMiB;
inline constexpr uint64_t kLogBytesMax = penstock::kGiB;
inline constexpr uint64_t kLogShare = 64;
// Records on their way to the disk at a time, and in memory: more wait in the one that gathers.
inline constexpr uint32_t kLogWrites = 4;
inline constexpr uint32_t kLogRecords = 8;
// Writes that are logged and not visible yet, at most. They do not wait for room in a group.
inline constexpr uint32_t kLogJoinedMax = 256;
// Block maps that one transaction of a recovery changes.
inline constexpr uint32_t kReplayMaps = 1024;

// Block maps that one transaction of a conversion rewrites: below a MiB.
inline constexpr uint32_t kConvertMaps = 1024;

// Removals, scrubs and end queries in progress; more wait in order. Each scans so many keys at a
// time.
inline constexpr uint32_t kSweepsMax = 16;
inline constexpr uint32_t kSweepKeys = 1024;
inline constexpr uint32_t kScrubDepth = 4;  // block maps that one scrub reads at a time

// What the defragmenter moves at a time: neighbouring maps of a MiB, so that a large read finds it
// in one place, and with so many reads under way; with fewer beside others' work, so that they wait
// behind few.
inline constexpr uint32_t kMoveMaps = 4;
inline constexpr uint32_t kMoveBlocks = kMoveMaps * kMapBlocks;
inline constexpr uint32_t kMoveReads = 64;
inline constexpr uint32_t kMoveReadsBusy = 16;
// Beside others' work it rests for so many times as long as it moved: an eighth of the time, in
// which others still get most of the disk, costs them far less than a fifth.
inline constexpr int kMovePause = 7;
// Runs of new blocks are at least so long, unless all of them are fewer: 256 KiB in one operation.
inline constexpr uint32_t kMoveRunMin = kMapBlocks;
// It leaves this share of a target free, and so many blocks that no write need wait.
inline constexpr uint32_t kMoveReserveShare = 16;
inline constexpr uint64_t kMoveReserveBlocksMin = 512;
// It looks for scattered maps once one in so many is: then the records that it reads for one that
// it finds are fewer bytes than that one's blocks.
inline constexpr uint32_t kScatterShare = 256;
// It rests for so many times as long as a pass took, and at most so long when it could move
// nothing.
inline constexpr int kPassPause = 1;
inline constexpr std::chrono::nanoseconds kDefragmentWaitMax = std::chrono::minutes(10);

// Parts of one update of a chain: many times what a head joins, and little beside its blocks.
inline constexpr uint32_t kUpdateParts = 1024;
// Chunks of a chain that one list names.
inline constexpr size_t kListChunks = 4096;
// Chunk records at hand beyond those in use, some 200 bytes each.
inline constexpr size_t kChainChunksIdle = 1 << 16;
// Reads of block maps of an update that is committed, before the target gives up.
inline constexpr int kApplyAttemptsMax = 8;

// Maps in use beyond the cache's bound, which only evicts what no request or group uses.
inline constexpr uint32_t kMapsInUseMax = 1 << 17;
inline constexpr uint32_t kMapsCachedMin = 8;

static_assert(kChunkBlocksMax % kMapBlocks == 0);
static_assert(kChunkMapsMax <= UINT16_MAX, "a map's index in its chunk is 16 bits in its key");
static_assert(kInlineBlocks >= penstock::kMiB / kBlockBytes + 1, "an unaligned MiB fits inline");
static_assert(kInlineMaps >= kInlineBlocks / kMapBlocks + 1);
static_assert(kDataFileBlocks % kGrowBlocks == 0, "no run spans two files");
static_assert(uint64_t{kDataFilesMax} * kDataFileBlocks == uint64_t{1} << 32,
              "block numbers are 32 bits");
static_assert(kGrowBlocks % kGrowBlocksMin == 0 && kGrowBlocksMin > kClearReserveBlocks);
static_assert(kMoveBlocks <= kInlineBlocks && kMoveMaps <= kInlineMaps);
static_assert(kMoveReserveBlocksMin > kClearReserveBlocks + kMoveBlocks);
static_assert(kIosMax > kOpsMax, "every request can make progress");
static_assert(kGroups > kGroupsSyncing + 1, "one gathers, one commits");
static_assert(kLogBytesMin % (4 * kBlockBytes) == 0 && kLogRecordBytes % kBlockBytes == 0);
static_assert(kLogBlocks * kBlockBytes >= 64 * penstock::kKiB + kBlockBytes);
static_assert(kLogRecords > kLogWrites);
static_assert(kMapsInUseMax >= kOpsMax * kInlineMaps + kLargeOps * kChunkMapsMax +
                                   kLoads * kLoadMaps +
                                   kGroups * (kGroupMapsMax + kChunkMapsMax + 2 * kLogJoinedMax) +
                                   kSweepsMax * kChunkMapsMax + kMoveMaps,
              "whatever may pin a map finds room");

}  // namespace penstock::store::limits
