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

// Lists of one device: being run, queued behind it, and being written.
inline constexpr uint32_t kBatches = 4;
inline constexpr uint32_t kBatchesInFlight = 2;

// Copies in flight on one stream: below what its queue in the driver holds (1,024), so that the
// driver never blocks, and far more than keeps a link busy.
inline constexpr uint32_t kCopiesInFlight = 256;

// Blocks of a launch. A few are enough for the link (16 of them reach it), and the rest of the GPU
// is the application's.
inline constexpr uint32_t kThreadsPerBlock = 256;
inline constexpr uint32_t kWarpsPerBlock = kThreadsPerBlock / 32;
inline constexpr uint32_t kGatherBlocksMax = 32;
inline constexpr uint32_t kCheckBlocksMax = 64;

// What a device does at least in a nanosecond, bytes: for guessing when to look after it.
inline constexpr uint64_t kBytesPerNanosecond = 50;

// Without a completion for so long, the driver is asked whether the device still lives.
inline constexpr std::chrono::milliseconds kQuietTime{100};

}  // namespace penstock::gpu::limits
