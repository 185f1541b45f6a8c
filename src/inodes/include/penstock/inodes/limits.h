// Bounds of what all opens of a file share, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::inodes::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// A table that is larger than the one that a directory has by this factor takes its place when the
// directory is set anew: the cluster has grown, and files are to lie on all of it.
inline constexpr uint32_t kMuchLarger = 2;

// Lengths that wait to become durable. As many as all operations of a few shards.
inline constexpr uint32_t kSettleQueueMax = 65536;
// Settled together, then made durable by one sync.
inline constexpr size_t kSettleBatch = 256;

// What a mount writes piece by piece gathers (decision 0026): pieces up to this length, since
// larger ones keep the disk busy by themselves,
inline constexpr uint64_t kBehindWriteMax = 64 * kKiB;
// in buffers that are written when they hold this, which is enough to make the trip cheap,
inline constexpr uint64_t kBehindBytes = 256 * kKiB;
// and have room for the write that fills them and for bytes before it in its block.
inline constexpr uint64_t kBehindBufferBytes = kBehindBytes + kBehindWriteMax + kBlockBytes;
// Buffers that are kept for the next file: what a few writers use.
inline constexpr size_t kBehindSpareMax = 16;
// Files up to this length that were written as a whole are kept until they are read, since the disk
// takes longer for them than all the rest of an open and a read,
inline constexpr uint64_t kRecentFileBytes = 64 * kKiB;
// up to so many bytes: some ten thousand of 4 KiB, as a compiler or git leaves behind.
inline constexpr uint64_t kRecentBytesMax = 64 * kMiB;
// How long the free space that was seen counts, and how much of it is left alone: more than other
// writers use in that time.
inline constexpr auto kBehindRoomFor = std::chrono::milliseconds(100);
inline constexpr uint64_t kBehindRoomBytes = 64 * kMiB;
// After bytes were lost nothing gathers for so long: errors are told at the write itself.
inline constexpr auto kBehindTrouble = std::chrono::seconds(10);

// The table of open files is divided, so that opening does not serialise.
inline constexpr size_t kTableShards = 64;

// Times of access that wait to be recorded, 64 bytes each. They are recorded every kCollectRetry,
// so that only a walk through more files than this in that time loses some.
inline constexpr size_t kAccessesMax = 262'144;
// Recorded in one transaction.
inline constexpr size_t kAccessBatch = 1024;

// Chains have numbers below this: a large cluster has 20,000, and tables that replaced others leave
// theirs behind. 8 KiB of memory for every 1,024 numbers of which one is in use.
inline constexpr uint32_t kChainsMax = uint32_t{1} << 20;

// Tables to choose from: a few for each kind of disk and number of copies.
inline constexpr size_t kTablesMax = 64;

// Chunks that are asked at a time where holes begin and end.
inline constexpr size_t kProbeBatch = 64;

// A store that does not answer a control call (clear, remove, sync, end query) within this time is
// stuck: the call ends with timed_out. Removing or syncing a huge file takes seconds.
inline constexpr auto kStoreCallTimeout = std::chrono::minutes(5);
// How many blocks a file with holes takes nobody needs to know for certain: who lists files on
// chains that are away is not to wait for each of them.
inline constexpr auto kAllocatedTimeout = std::chrono::seconds(1);

// A program that removes one file often removes more: so long the collector waits for them, unless
// room is short.
inline constexpr auto kCollectCompany = std::chrono::milliseconds(100);
// A write that met a full disk is tried again if removed files were collected so lately.
inline constexpr auto kCollectedLately = std::chrono::seconds(1);
// Chains that are asked at a time which files they have: two megabytes of numbers.
inline constexpr size_t kListBatch = 512;
// Removals that targets are asked for at a time: less than what one client of chains may have under
// way, half a megabyte of memory.
inline constexpr size_t kRemoveBatch = 512;

}  // namespace penstock::inodes::limits
