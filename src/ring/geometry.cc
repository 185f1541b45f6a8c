#include <bit>
#include <cstring>

#include "penstock/ring.h"

namespace penstock::ring {

Result<Geometry> Geometry::make(uint32_t entries, uint32_t lanes) {
  if (entries == 0 || entries > kEntriesMax || lanes == 0 || lanes > kLanesMax) {
    return Code::invalid_argument;
  }
  const Geometry geometry{std::bit_ceil(entries), lanes};
  ASSERT(is_power_of_two(geometry.entries) && geometry.entries <= kEntriesMax);
  return geometry;
}

uint64_t Geometry::lane_bytes() const {
  return align_up(
      sizeof(LaneControl) + uint64_t{entries} * (sizeof(Submission) + sizeof(Completion)),
      kCacheLine);
}

Memory Memory::format(MutableBytes bytes, Geometry geometry) {
  ASSERT(bytes.size() >= geometry.total_bytes() && is_aligned(bytes.data(), kHeaderBytes));
  // What open() demands.
  ASSERT(is_power_of_two(geometry.entries) && geometry.lanes > 0 && geometry.lanes <= kLanesMax);
  Memory memory(bytes.data(), geometry);
  Header& header = memory.header();
  header = {};
  header.magic = kMagic;
  header.version = kVersion;
  header.header_bytes = kHeaderBytes;
  header.total_bytes = geometry.total_bytes();
  header.lanes = geometry.lanes;
  header.entries = geometry.entries;
  header.submission_bytes = sizeof(Submission);
  header.completion_bytes = sizeof(Completion);
  header.lane_bytes = geometry.lane_bytes();
  for (uint32_t lane = 0; lane < geometry.lanes; ++lane) memory.control(lane) = {};
  return memory;
}

Result<Memory> Memory::open(MutableBytes bytes) {
  if (bytes.size() < kHeaderBytes || !is_aligned(bytes.data(), kHeaderBytes)) {
    return Code::bad_message;
  }
  // One copy, checked afterwards: the application could change a field between two reads.
  Header header;
  static_assert(std::is_trivially_copyable_v<Header>);
  std::memcpy(&header, bytes.data(), sizeof header);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (header.magic != kMagic) return Code::bad_message;
  if (header.version != kVersion) return Status(Code::wrong_version, header.version);
  const Result<Geometry> geometry = Geometry::make(header.entries, header.lanes);
  if (!geometry || geometry->entries != header.entries) return Code::bad_message;
  const bool sizes = header.header_bytes == kHeaderBytes &&
                     header.submission_bytes == sizeof(Submission) &&
                     header.completion_bytes == sizeof(Completion) &&
                     header.lane_bytes == geometry->lane_bytes() &&
                     header.total_bytes == geometry->total_bytes() && header.reserved == 0;
  if (!sizes || geometry->total_bytes() > bytes.size()) return Code::bad_message;
  return Memory(bytes.data(), *geometry);
}

}  // namespace penstock::ring
