// Bounds of views of the node cache, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::cache_view::limits {

using namespace penstock::limits;

// Cache lines of the next read that are asked for while the one before it is copied.
inline constexpr size_t kPrefetchLines = 8;
// Hits of one lane from one note for the agent to the next: a note costs as much as a look-up when
// several threads write theirs.
inline constexpr uint32_t kHitsPerTouch = 4;

// For how long the end of a session, or a new ring for kernels, waits for the driver to give memory
// of the node cache back: that takes it a while where there is much, and without limit while
// kernels run.
inline constexpr std::chrono::seconds kReapWait{5};

}  // namespace penstock::cache_view::limits
