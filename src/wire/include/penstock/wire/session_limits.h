// What a session may be asked for at most, and what both sides say of files and memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "penstock/base.h"
#include "penstock/wire/fields.h"

namespace penstock::wire {

// The socket's name in the directory of a store.
inline constexpr const char* kSessionSocketName = "agent.sock";

// One datagram. Large enough for a path twice and for a page of directory entries.
inline constexpr size_t kSessionMessageMax = 64 * kKiB;
// Descriptors that may come with one request, or with one reply.
inline constexpr size_t kSessionDescriptorsMax = 2;
inline constexpr size_t kReplyDescriptorsMax = 1;

// Of one session. Tables grow with use, to arrays of this size at most. The kernel lets a process
// map about as many regions as this (vm.max_map_count); a ring has 64 lanes, each of which is as
// good as a ring to a program that wants many.
inline constexpr uint32_t kRegionsMax = 65536;
inline constexpr uint32_t kRingsMax = 512;
inline constexpr uint32_t kFilesMax = 65536;
inline constexpr uint64_t kRegionBytesMax = kTiB;  // one region, and all of a session together

// What a process needs to map another one's GPU memory, beside a descriptor.
inline constexpr size_t kDeviceHandleBytesMax = 128;

enum OpenFlag : uint32_t {
  kOpenRead = 1,
  kOpenWrite = 2,
  kOpenCreate = 4,
  kOpenExclusive = 8,
  kOpenTruncate = 16,
};
inline constexpr uint32_t kOpenFlagsAll = 31;

inline constexpr uint32_t kModeBits = 07777;
inline constexpr size_t kTokenBytesMax = 256;

// Of one request for many files: their paths and answers fit a datagram, and nothing that others
// wait for becomes long.
inline constexpr uint32_t kFilesAtOnceMax = 512;
// Files that are only looked at, of one request: answers with attributes are longer.
inline constexpr uint32_t kLooksAtOnceMax = 256;
// Instead of a region's id: none, the file is only looked at.
inline constexpr uint32_t kNoRegion = UINT32_MAX;

// Whether that many bytes may go to, or come from, a region of this id.
constexpr bool is_place(uint64_t length, uint32_t region) {
  if (region == kNoRegion) return length == 0;
  return length <= limits::kIoBytesMax && region < kRegionsMax;
}

// Since 1970, with nanoseconds of the second.
struct Time {
  int64_t seconds = 0;
  uint32_t nanoseconds = 0;
  friend bool operator==(const Time&, const Time&) = default;

  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.seconds), field<2>(m.nanoseconds, below(1'000'000'000)));
  }
};
// What GPU memory is published under; any value.
using DeviceMemoryId = std::array<uint8_t, 16>;
// GPU memory as another process maps it. What the bytes and the descriptor mean is between the
// processes that use the GPU.
struct DeviceHandle {
  std::string bytes;              // 1 to kDeviceHandleBytesMax
  uint64_t size = 0;              // of the memory
  std::array<uint8_t, 16> gpu{};  // the GPU's UUID; zeros: not known
  bool descriptor = false;        // one comes along

  static constexpr Kind kKind{11};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.bytes, sized(1, kDeviceHandleBytesMax)),
                      field<2>(m.size, between(1, kRegionBytesMax)), field<3>(m.gpu),
                      field<4>(m.descriptor));
  }
  size_t descriptors() const { return descriptor ? 1 : 0; }
};
}  // namespace penstock::wire
