// Bounds of the clients of shards, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::shards::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// Calls that one operation has under way. A 64 MiB read of a file with 1 MiB chunks keeps this many
// disks or queue slots busy; more would only let one operation crowd out others.
inline constexpr uint32_t kPiecesPerOp = 16;
// Every operation owns one piece, so that it always makes progress; the others come from here.
inline constexpr uint32_t kSharedPieces = 2048;
// A read starts again when the file was cut while it was under way. After so many cuts in the time
// of one read its bytes are returned as they are: each of them was in the file at some moment.
inline constexpr uint32_t kReadRestartsMax = 8;

// How long an operation waits for a hold that another node has: longer than an agent may take that
// renews its lease and gives nothing back, with its fence. Also of all that a file system does
// under holds.
inline constexpr auto kHoldWait = std::chrono::seconds(40);

// Turns (docs/decisions/0028). Operations up to so many bytes are small.
inline constexpr uint64_t kSmallBytes = 64 * kKiB;
// Of these, under way in one client: the depth beyond which no drive gets faster. Those of more
// than two units count as often, as do large ones that are marked as urgent.
inline constexpr uint64_t kSmallUnderWayMax = 512;
inline constexpr uint32_t kSmallUnit = 16 * kKiB;
// Bytes of large reads under way: enough to keep drives busy, for the time between two turns of the
// loop; and never more than a shard's processor can verify in some milliseconds.
inline constexpr uint64_t kReadsUnderWay = 16 * kMiB;
inline constexpr uint64_t kReadsUnderWayMax = 64 * kMiB;
inline constexpr auto kReadsTime = std::chrono::milliseconds(4);
// Beside small operations: what a disk reads in the time that these may well wait; and on one that
// takes longer to answer at all, so much that it has something to do meanwhile.
inline constexpr auto kReadsTimeBesideSmall = std::chrono::microseconds(250);
inline constexpr auto kReadsTimeBesideMany = std::chrono::microseconds(100);
inline constexpr auto kReadsTimeBesideSmallMax = std::chrono::milliseconds(10);
// At least two pieces, one on the disk while the other is verified. Beside many small ones a single
// piece: these would mostly wait for both.
inline constexpr uint64_t kReadsUnderWayBesideSmall = 256 * kKiB;
inline constexpr uint64_t kReadsUnderWayBesideMany = 128 * kKiB;
// How long it takes to answer is seen only while little is under way: for so long in each period,
// and counted once what went before has landed.
inline constexpr std::chrono::nanoseconds kProbePeriod = std::chrono::seconds(1);
inline constexpr std::chrono::nanoseconds kProbe = std::chrono::milliseconds(60);
inline constexpr std::chrono::nanoseconds kProbeIgnored = std::chrono::milliseconds(20);
// Bytes of large writes, which are copied to buffers and wait for commits.
inline constexpr uint64_t kWritesUnderWay = 64 * kMiB;
inline constexpr uint64_t kWritesUnderWayBesideSmall = 8 * kMiB;
// Pieces of reads: what is between two choices of the next flow.
inline constexpr uint32_t kReadPieceBytes = kMiB;
inline constexpr uint32_t kReadPieceBytesBesideSmall = 128 * kKiB;
// For so long after a small operation there may be more of them; and so exactly is that known.
inline constexpr std::chrono::nanoseconds kSmallSeenFor = std::chrono::milliseconds(250);
inline constexpr std::chrono::nanoseconds kSmallSeenStep = std::chrono::milliseconds(10);
// There are many while they follow one another within the first, and for the second afterwards. A
// few a second are not worth a part of the disk that others would use.
inline constexpr std::chrono::nanoseconds kSmallManyGap = std::chrono::milliseconds(25);
inline constexpr std::chrono::nanoseconds kSmallManyFor = std::chrono::milliseconds(50);
// What is measured counts for once to twice so long.
inline constexpr std::chrono::nanoseconds kRecent = std::chrono::milliseconds(100);
// What an operation costs beside its bytes, in bytes, and what a user of weight 100 may spend in
// one turn: the largest piece of a read.
inline constexpr uint64_t kOperationCost = 16 * kKiB;
inline constexpr uint64_t kQuantumSmall = kSmallBytes + kOperationCost;
inline constexpr uint64_t kQuantumLarge = kReadPieceBytes + kOperationCost;
// So far ahead of its limit a flow may be, so that a timer need not be exact; and no piece is
// charged with more, so that clocks do not overflow.
inline constexpr std::chrono::nanoseconds kPaceAhead = std::chrono::milliseconds(10);
inline constexpr std::chrono::nanoseconds kPaceMost = std::chrono::hours(1);
// Flows that are held back are looked at so often, as limits may be lifted.
inline constexpr std::chrono::nanoseconds kPaceLook = std::chrono::milliseconds(100);

// Slots of a client for write-behind's writes: operations wait for these, and these for no
// operation.
inline constexpr uint32_t kBehindOperations = 64;

static_assert(kSmallManyGap >= 2 * kSmallSeenStep,
              "a flow that reads all the time is seen as such");
static_assert(kQuantumSmall * 1 / 100 > 0, "the least weight gets on");
static_assert(kReadsUnderWay >= kPiecesPerOp * kReadPieceBytes, "one read alone is not held up");
static_assert(kPiecesPerOp >= 2 && kSharedPieces >= kPiecesPerOp);

}  // namespace penstock::shards::limits
