// Bounds of what applications may hold, each with its reason.
#pragma once

#include <cstdint>

#include "penstock/base.h"

namespace penstock::resources::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// Sessions at once. Each costs a socket, a descriptor of its process, and some tables; a node has
// hundreds of processes that use it, not thousands. What of these, and of all that sessions hold,
// one user may have is in accounts.cc.
inline constexpr uint32_t kSessionsMax = 1024;
// Descriptors of this process that are shared out at most, whatever its limit is.
inline constexpr uint64_t kDescriptorsMax = 1U << 20;
// Heap that clients may have together where there is little memory: so much, or a quarter of what
// this process may use if that is less.
inline constexpr uint64_t kClientHeapBytesMin = 256 * kMiB;
// Mappings of memory that are the node's own: programs and libraries, stacks, databases and the
// node cache's slabs. An eighth of what the kernel lets a process have, as it is usually set up.
inline constexpr uint64_t kOwnMappings = 8192;
// Pieces of foreign memory that are guarded at once (bus_guard.h), over all sessions: more than the
// kernel lets a process map, as it is usually set up (vm.max_map_count, of which sessions have
// shares, too).
inline constexpr uint32_t kGuardsMax = 131072;
// Threads that close foreign descriptors, each of which may hang in a close for ever: of one user,
// so that others find some, and of all. Those that have nothing to do stay up to a few.
inline constexpr uint32_t kCloseThreadsPerUserMax = 16;
inline constexpr uint32_t kCloseThreadsMax = 256;
inline constexpr size_t kCloseThreadsIdleMax = 2;
static_assert(kCloseThreadsPerUserMax < kCloseThreadsMax, "one user cannot take them all");
// What a session's account is charged with of the heap for memory that is mapped for it: what is
// noted of it here and in the kernel, and a page table of the kernel for each so many bytes, as if
// every page of it were touched here.
inline constexpr uint64_t kMappedHeapBytes = 1 * kKiB;
inline constexpr uint64_t kBytesPerPageTableByte = 512;

}  // namespace penstock::resources::limits
