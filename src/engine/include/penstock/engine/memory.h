// Names for the memory that I/O lands in or comes from, and for the way it took.
#pragma once

#include "penstock/base.h"

namespace penstock::engine {

enum class MemoryKind : uint8_t {
  host = 0,
  device = 1,  // GPU memory; only a transport or a copy lane that knows the device may touch it
};

// The index of a buffer registered with every Disk of the node (io_uring's fixed buffers), so that
// its pages need not be pinned at each operation.
using BufferId = Id<struct BufferIdTag, uint32_t>;
inline constexpr BufferId kNoBuffer{UINT32_MAX};

// A span of memory that stays valid until the operation it is given to has completed.
struct MemoryRef {
  std::byte* data = nullptr;
  uint64_t length = 0;
  BufferId buffer = kNoBuffer;
  MemoryKind kind = MemoryKind::host;

  MemoryRef sub(uint64_t offset, uint64_t count) const {
    DASSERT(range_within(offset, count, length));
    return {data + offset, count, buffer, kind};
  }
  MutableBytes bytes() const { return {data, static_cast<size_t>(length)}; }
};

// The way an operation's bytes took, reported per operation and counted. The values are part of
// the C API (penstock_route) and of the ring format. When parts of one operation went different
// ways, the worst (largest) is reported.
enum class Route : uint8_t {
  none = 0,             // no bytes moved
  hole = 1,             // zeros, made here
  disk_direct = 2,      // O_DIRECT between the disk and the caller's memory
  disk_staged = 3,      // O_DIRECT through an aligned buffer: offset, length or address unaligned
  disk_page_cache = 4,  // through the page cache: the file system refuses O_DIRECT
  disk_threads = 5,     // by pread/pwrite on a thread pool: the kernel refuses io_uring
  cache = 6,            // copied by a processor from the node cache to host memory
  device_peer = 7,      // another GPU of the node holds it: over NVLink, or from GPU to GPU by PCIe
  device_cache = 8,     // node cache and GPU memory, one transfer by a copy engine
  device_gather = 9,    // node cache and GPU memory, many small pieces by one kernel
  device_mapped = 10,   // a local file's pages, pinned, and GPU memory by a copy engine
  device_slots = 11,    // disk and GPU memory through pinned slots of host memory, overlapped
  device_network = 12,  // a network card and GPU memory; better than slots
};
inline constexpr int kRouteCount = 13;
constexpr Route worse(Route a, Route b) {
  // The one whose value is no rank: it came when others had theirs.
  if (a == Route::device_network && b == Route::device_slots) return b;
  if (b == Route::device_network && a == Route::device_slots) return a;
  return a > b ? a : b;
}
const char* route_name(Route route);

}  // namespace penstock::engine
