// What a mover does at once. A source does well to have its bytes in parts that are multiples of
// it.
#pragma once

#include "penstock/base.h"

namespace penstock::route::limits {

// NOLINTNEXTLINE(google-build-using-namespace): one name for all bounds.
using namespace penstock::limits;

// A slot holds what a disk reads at once at full speed. Pieces begin at multiples of it in the
// file, so that whole blocks are read.
inline constexpr uint64_t kSlotBytes = kMiB;

// One copy by an engine: long enough to hide the pause between two (5 of 300 us).
inline constexpr uint64_t kEngineCopyBytesMax = 16 * kMiB;

}  // namespace penstock::route::limits
