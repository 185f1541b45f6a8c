#include "penstock/arena/extent.h"

#include "limits.h"

#include <atomic>
#include <cstring>

namespace penstock::arena {

Result<Geometry> Geometry::make(uint64_t bytes, uint64_t slab_bytes) {
  if (!is_power_of_two(slab_bytes) || slab_bytes < kExtentBytes ||
      slab_bytes > limits::kSlabBytesMax || bytes < slab_bytes) {
    return Code::invalid_argument;
  }
  const uint64_t slots = align_down(bytes, slab_bytes) / kExtentBytes;
  if (slots > limits::kSlotsMax) return Code::invalid_argument;
  Geometry geometry;
  geometry.slots_max = static_cast<uint32_t>(slots);
  geometry.entries = std::bit_ceil(geometry.slots_max * 2);
  geometry.slab_bytes = slab_bytes;
  ASSERT(geometry.slots_max > 0 && geometry.entries >= 2 * geometry.slots_max);
  return geometry;
}

void Geometry::write(Header& header) const {
  header = {};
  header.magic = kMagic;
  header.version = kVersion;
  header.header_bytes = kHeaderBytes;
  header.total_bytes = index_bytes();
  header.slab_bytes = slab_bytes;
  header.slots_max = slots_max;
  header.entries = entries;
  header.checksums_offset = checksums_offset();
}

Result<Geometry> Geometry::read(const Header& header, uint64_t index_bytes) {
  // One copy, checked afterwards.
  Header copy;
  static_assert(std::is_trivially_copyable_v<Header>);
  std::memcpy(&copy, &header, sizeof copy);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (copy.magic != kMagic) return Code::bad_message;
  if (copy.version != kVersion) return Status(Code::wrong_version, copy.version);
  const Result<Geometry> geometry = make(uint64_t{copy.slots_max} * kExtentBytes, copy.slab_bytes);
  if (!geometry || geometry->slots_max != copy.slots_max) return Code::bad_message;
  const bool sizes = copy.header_bytes == kHeaderBytes && copy.entries == geometry->entries &&
                     copy.checksums_offset == geometry->checksums_offset() &&
                     copy.total_bytes == geometry->index_bytes() &&
                     geometry->index_bytes() <= index_bytes;
  if (!sizes) return Code::bad_message;
  return geometry;
}

}  // namespace penstock::arena
