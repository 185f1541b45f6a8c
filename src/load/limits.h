// Bounds of loads and saves, each with its reason.
#pragma once

#include <chrono>

#include "penstock/engine.h"
#include "penstock/load/spread.h"
#include "penstock/route.h"

namespace penstock::load::limits {

using namespace penstock::limits;

// What a link carries at a time: one copy of an engine (0.3 ms), so that links that are not equally
// fast share the work well, and all of them end at about the same time; and few enough of them (500
// of a load of 8 GiB) that handing them out costs nothing.
inline constexpr uint64_t kPieceBytes = 16 * kMiB;

// Memory that a lender's GPU gives while it lasts.
inline constexpr uint64_t kStagingBytes = kPieceBytes * kPiecesPerLink;

// Runs up to this size are brought as entries of a list, of which a piece has so many at most.
inline constexpr uint64_t kSmallRunBytes = route::kListEntryBytesMax;
inline constexpr uint32_t kEntriesPerPiece = 4096;
static_assert(kSmallRunBytes <= kPieceBytes);

// How often callers are told how far it is, and can say that they have had enough.
inline constexpr std::chrono::milliseconds kTellEvery{50};

// Files of one load: a few times what the largest models are cut into.
inline constexpr size_t kFilesMax = 4096;

// Tensors begin at multiples of no more than what allocations of all devices are aligned to.
inline constexpr uint64_t kAlignmentMax = 4096;

// Of a save: parts that are written at a time, of at most so many bytes.
inline constexpr uint64_t kWriteBytes = 16 * kMiB;
inline constexpr uint32_t kWritesInFlight = 8;
static_assert(kWriteBytes <= kIoBytesMax);

// Headers are read in parts of this size, and host memory is written so.
inline constexpr uint64_t kHostStepBytes = 4 * kMiB;

}  // namespace penstock::load::limits
