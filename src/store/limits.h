// Bounds of a target, each with its reason.
#pragma once

#include <chrono>

#include "penstock/base.h"

namespace penstock::store {

// The number of a block in its target (data_files.h).
using BlockNumber = uint64_t;

}  // namespace penstock::store

namespace penstock::store::limits {

using penstock::limits::kBlockBytes;
using penstock::limits::kChunkBytesMax;

// Blocks of one block map: a MiB, so that an opening reads 30 million records of a target of 30 TB.
inline constexpr uint32_t kMapBlocks = 256;
inline constexpr uint64_t kMapBytes = kMapBlocks * kBlockBytes;
// Checksums are kept beside the map in records of so many blocks, a quarter of a kilobyte: what a
// small write changes of them, and what a small read fetches.
inline constexpr uint32_t kQuarterBlocks = 64;
inline constexpr uint32_t kMapQuarters = kMapBlocks / kQuarterBlocks;
// A map whose blocks lie in more runs than this has them in the records of its quarters: each
// scattered small write would write all of them anew else.
inline constexpr uint32_t kMapRunsNear = 16;
inline constexpr uint32_t kChunkBlocksMax = kChunkBytesMax / kBlockBytes;
inline constexpr uint32_t kChunkMapsMax = kChunkBlocksMax / kMapBlocks;

// Reads, writes and clears in progress; more wait in order. Enough to keep any drive busy.
inline constexpr uint32_t kOpsMax = 1024;
// An operation on up to a MiB, aligned or not, keeps its blocks in its own context; larger ones
// share a few large arrays.
inline constexpr uint32_t kInlineBlocks = 320;
inline constexpr uint32_t kInlineMaps = 3;
inline constexpr uint32_t kLargeOps = 32;

// One data file: small enough for any file system, few enough to keep all of them open. From the
// first large one on they are 64 GiB each, so that a target of 1 PiB has no more than twice as many
// as one of 16 TiB; file systems that take targets of that size take such files.
inline constexpr uint32_t kDataFileBlocks = 1 << 18;
inline constexpr uint32_t kDataFilesSmall = 16384;
inline constexpr uint32_t kDataFileBlocksLarge = 1 << 24;
// What a target may hold: 1 PiB.
inline constexpr uint64_t kTargetBlocksMax = uint64_t{1} << 38;
inline constexpr uint64_t kSmallFilesBlocks = uint64_t{kDataFilesSmall} * kDataFileBlocks;
inline constexpr uint32_t kDataFilesMax =
    kDataFilesSmall +
    static_cast<uint32_t>((kTargetBlocksMax - kSmallFilesBlocks) / kDataFileBlocksLarge);
// Bits of a block's number in memory: whole bytes, as maps are kept by the million.
inline constexpr uint32_t kBlockNumberBits = 40;

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
inline constexpr uint32_t kLoadMaps = 16;
inline constexpr uint32_t kLoads = 32;

// A commit starts by itself when so many maps have changed, or so long after the first change;
// updates wait when one group holds more than the maximum, so that a commit stays below 10 MiB, and
// below 2 MiB unless every map is new and scattered.
inline constexpr uint32_t kGroupMapsStart = 1024;
inline constexpr uint32_t kGroupMapsMax = 4096;
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
// Bits for the inodes, and the chunks, of a group that have changes beside the log. A wrong hit is
// merely slow.
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
// And prepares of chains with so many blocks: 64 requests of 4 KiB that a head joined, which wait
// for one sync then as one alone does.
inline constexpr uint32_t kLogChainBlocks = 64;
// Blocks of a record for entries of prepares, a fifth of a KiB each for small ones.
inline constexpr uint32_t kLogPrepareBlocks = 4;
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
// Block maps and records of chains that one transaction of a recovery changes.
inline constexpr uint32_t kReplayMaps = 1024;

// Records of block maps that one transaction of an opening reads: 9 MiB of them, and so many that
// what beginning a scan costs does not count.
inline constexpr uint32_t kLoadRecords = 1 << 15;

// Block maps that one transaction of a conversion rewrites: below a MiB.
inline constexpr uint32_t kConvertMaps = 1024;

// Removals, scrubs and end queries in progress; more wait in order. Each scans so many keys at a
// time.
inline constexpr uint32_t kSweepsMax = 16;
inline constexpr uint32_t kSweepKeys = 1024;
inline constexpr uint32_t kScrubDepth = 4;  // block maps that one scrub reads at a time
// Damaged blocks of chains that one scrub waits for to be healed, before it reads on: what two
// healings of a whole block map are.
inline constexpr uint32_t kScrubHealsMax = 2 * kMapBlocks;

// What the defragmenter moves at a time: a map, so that a large read finds it in one place, and
// with so many reads under way; with fewer beside others' work, so that they wait behind few.
inline constexpr uint32_t kMoveMaps = 1;
inline constexpr uint32_t kMoveBlocks = kMoveMaps * kMapBlocks;
inline constexpr uint32_t kMoveReads = 64;
inline constexpr uint32_t kMoveReadsBusy = 16;
// Beside others' work it rests for so many times as long as it moved: an eighth of the time, in
// which others still get most of the disk, costs them far less than a fifth.
inline constexpr int kMovePause = 7;
// Runs of new blocks are at least so long, unless all of them are fewer: 256 KiB in one operation.
inline constexpr uint32_t kMoveRunMin = kQuarterBlocks;
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
inline constexpr uint32_t kMapsInUseMax = 1 << 16;
inline constexpr uint32_t kMapsCachedMin = 8;
// Of the memory for maps, the share that the places of maps may take which are not in memory whole:
// with the rest 1 GiB tells the places of 22 TiB in chunks of a MiB, of 80 TiB in larger ones.
inline constexpr uint64_t kRunsShareOf4 = 3;
// Entries that are looked at to find one with several runs: some microseconds.
inline constexpr uint32_t kRunsLooks = 1024;

static_assert(kChunkBlocksMax % kMapBlocks == 0 && kMapBlocks % kQuarterBlocks == 0);
static_assert(kMapBlocks <= 256, "a block's index in its map is a byte of a record");
static_assert(kQuarterBlocks == 64, "a word has a bit for each block of a quarter");
static_assert(kChunkMapsMax <= UINT16_MAX, "a map's index in its chunk is 16 bits in its key");
static_assert(kInlineBlocks >= penstock::kMiB / kBlockBytes + 1, "an unaligned MiB fits inline");
static_assert(kInlineMaps >= kInlineBlocks / kMapBlocks + 1);
static_assert(kDataFileBlocks % kGrowBlocks == 0, "no run spans two files");
static_assert(kDataFileBlocksLarge % kDataFileBlocks == 0 &&
                  kSmallFilesBlocks % kDataFileBlocks == 0,
              "where a number is a multiple of a small file's blocks a file may begin, and nowhere "
              "else");
static_assert((kTargetBlocksMax - kSmallFilesBlocks) % kDataFileBlocksLarge == 0);
static_assert(kTargetBlocksMax < uint64_t{1} << kBlockNumberBits && kBlockNumberBits % 8 == 0);
static_assert(kTargetBlocksMax * kBlockBytes == uint64_t{1} << 50, "1 PiB");
static_assert(kGrowBlocks % kGrowBlocksMin == 0 && kGrowBlocksMin > kClearReserveBlocks);
static_assert(kMoveBlocks <= kInlineBlocks && kMoveMaps <= kInlineMaps);
static_assert(kMoveReserveBlocksMin > kClearReserveBlocks + kMoveBlocks);
static_assert(kIosMax > kOpsMax, "every request can make progress");
static_assert(kGroups > kGroupsSyncing + 1, "one gathers, one commits");
static_assert(kLogBytesMin % (4 * kBlockBytes) == 0 && kLogRecordBytes % kBlockBytes == 0);
static_assert(kLogBlocks * kBlockBytes >= 64 * penstock::kKiB + kBlockBytes);
static_assert((kLogPrepareBlocks + kLogChainBlocks) * kBlockBytes <= kLogRecordBytes);
static_assert(kLogRecords > kLogWrites);
static_assert(kMapsInUseMax >= kOpsMax * kInlineMaps + kLargeOps * kChunkMapsMax +
                                   kLoads * kLoadMaps +
                                   kGroups * (kGroupMapsMax + kChunkMapsMax + 2 * kLogJoinedMax) +
                                   kSweepsMax * kChunkMapsMax + kMoveMaps,
              "whatever may pin a map finds room");

}  // namespace penstock::store::limits
