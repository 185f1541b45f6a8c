// Bounds of the node cache, each with its reason.
#pragma once

#include <chrono>
#include <cstdint>

#include "penstock/engine.h"

namespace penstock::node_cache::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// Fills under way of one shard, enough to keep a drive's queue from running dry; and fewer while
// rings have so many reads and writes under way that fills would hold them up.
inline constexpr uint32_t kFillsMax = 16;
inline constexpr uint32_t kFillsMaxBesideOthers = 4;
inline constexpr uint32_t kOthersMax = 32;
static_assert(kFillsMaxBesideOthers < kFillsMax, "fills stand back");

// For so long an application believes the memory of a cache whose agent it does not hear of, and
// for so long the successor of an agent that was killed serves no session; and how often the agent
// says that it lives.
inline constexpr std::chrono::milliseconds kCacheLease{500};
inline constexpr std::chrono::milliseconds kCacheLeaseRenewal{150};
static_assert(kCacheLeaseRenewal * 3 <= kCacheLease, "a late thread does not end the lease");

// Slabs registered with the disks, of the node's buffers: the rest is for regions.
inline constexpr uint32_t kSlabBuffersMax = engine::kDiskBuffersMax / 2;
// A cache has several slabs, so that several classes of readers find room.
inline constexpr uint64_t kCacheSlabs = 8;
inline constexpr uint64_t kSlabBytesMin = 1 * kMiB;
inline constexpr uint64_t kSlabBytesDefault = 64 * kMiB;

}  // namespace penstock::node_cache::limits
