// Bounds of the CUDA lanes, each with its reason.
#pragma once

#include <chrono>
#include <cstdint>

#include "penstock/engine.h"

namespace penstock::gpu::limits {

using namespace penstock::limits;

// One launch: long enough to hide a launch's cost behind the one before, short enough that the next
// list is written while it runs (2,048 pieces of 4 KiB: 160 us).
inline constexpr uint32_t kBatchPieces = 2048;
inline constexpr uint32_t kBatchChecks = engine::kCopyChecksMax;
static_assert(kBatchPieces >= engine::kCopyPiecesMax, "every operation fits one batch");

// Launches of one device, each with its lists: one that runs, and one queued behind it, so that the
// device need not wait for the thread. Lists are written and launched in one step: none is in
// between.
inline constexpr uint32_t kBatches = 2;

// Operations of one allocation, one behind the other, for which the driver is asked once whether it
// is there: a look takes as long as the rest that is done for a small one, and so many of those
// take a few microseconds.
inline constexpr uint32_t kOpsPerLook = 32;

// Copies in flight on one stream: below what its queue in the driver holds (1,024), so that the
// driver never blocks, and far more than keeps a link busy.
inline constexpr uint32_t kCopiesInFlight = 256;

// A smaller copy shares the number that says how far the stream is with others of the same turn:
// writing the number takes a processor almost as long as issuing a small copy.
inline constexpr uint64_t kOwnTicketBytes = 64 * kKiB;
// Such numbers under way on a stream at a time: copies that are issued meanwhile share the next
// one.
inline constexpr uint32_t kTicketsOutstanding = 2;

// Blocks of a launch. A few are enough for the link (16 of them reach it), and the rest of the GPU
// is the application's.
inline constexpr uint32_t kThreadsPerBlock = 256;
inline constexpr uint32_t kWarpsPerBlock = kThreadsPerBlock / 32;
inline constexpr uint32_t kGatherBlocksMax = 32;
inline constexpr uint32_t kCheckBlocksMax = 64;

// Bytes that a device moves in a nanosecond at least: for guessing when a copy ends.
inline constexpr uint64_t kBytesPerNanosecond = 50;

// Measuring what copies cost: some milliseconds, unless a program's kernel fills the GPU. Once for
// each device of a process; so much of its memory, and of pinned host memory, stays in use.
inline constexpr uint64_t kCostsBytes = 4 * kMiB;
inline constexpr uint32_t kCostsCopies = 32;
inline constexpr uint64_t kCostsCopyBytes = 64 * kKiB;
inline constexpr uint32_t kCostsRounds = 3;
inline constexpr std::chrono::milliseconds kCostsPatience{20};
static_assert(kCostsCopies * kCostsCopyBytes <= kCostsBytes);

// A mailbox's kernel stays so long without a request: a thread that reads one piece after the other
// takes a few microseconds in between, and starting a kernel takes it 12.
inline constexpr std::chrono::microseconds kMailboxIdle{20};
// It stays so long in all, at full clock: a program's cudaDeviceSynchronize() or cudaFree() in
// another thread waits for it. Starting it again is one part in a hundred.
inline constexpr std::chrono::microseconds kMailboxLife{1000};
// Programs' kernels may fill the device: a thread that has waited so long for a mailbox's kernel to
// begin goes another way.
inline constexpr std::chrono::microseconds kMailboxPatience{200};
// So does a thread for whose request so many kernels were started in that time, each of which left
// before it saw the request.
inline constexpr uint32_t kMailboxKernels = 4;
// The clock is looked at once in so many looks for an answer: about a microsecond.
inline constexpr uint32_t kMailboxLooks = 32;

// Without a completion for so long, the driver is asked whether the device still lives.
inline constexpr std::chrono::milliseconds kQuietTime{100};

}  // namespace penstock::gpu::limits
