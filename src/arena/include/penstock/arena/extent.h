// Names of extents and where they stand in the table.
#pragma once

#include <bit>

#include "penstock/arena/layout.h"
#include "penstock/base.h"

namespace penstock::arena {

// The piece [number * kExtentBytes, (number + 1) * kExtentBytes) of a file.
struct Extent {
  InodeId inode;
  uint32_t number = 0;

  friend constexpr auto operator<=>(const Extent&, const Extent&) = default;
};
static_assert(limits::kFileBytesMax / kExtentBytes - 1 <= UINT32_MAX);
static_assert(limits::kBlockBytes == kBlockBytes);

constexpr uint64_t hash_of(Extent extent) {
  return mix64(extent.inode.value + std::rotl(uint64_t{extent.number}, 40));
}

// Where probing for an extent begins in a table of `mask` + 1 entries: at the first of two that
// share a cache line, so that a search seldom needs a second one. Part of the format.
constexpr uint32_t home_of(Extent extent, uint32_t mask) {
  return static_cast<uint32_t>(hash_of(extent)) & mask & ~uint32_t{1};
}

// Sizes of an index, as each side keeps them for itself: after opening neither reads them from
// shared memory again.
struct Geometry {
  uint32_t slots_max = 0;
  uint32_t entries = 0;
  uint64_t slab_bytes = 0;

  // For at most `bytes` of slots. invalid_argument when that is less than a slab, more than
  // limits::kSlotsMax, or a slab's size is no power of two of at least an extent.
  static Result<Geometry> make(uint64_t bytes, uint64_t slab_bytes);
  // Reads a header that another process wrote: foreign input. Each field is read once.
  static Result<Geometry> read(const Header& header, uint64_t index_bytes);
  void write(Header& header) const;

  uint32_t slab_slots() const { return static_cast<uint32_t>(slab_bytes / kExtentBytes); }
  uint32_t slabs_max() const { return slots_max / slab_slots(); }
  uint64_t checksums_offset() const { return kHeaderBytes + uint64_t{entries} * sizeof(Entry); }
  uint64_t index_bytes() const {
    return align_up(checksums_offset() + uint64_t{slots_max} * sizeof(Checksums), kHeaderBytes);
  }

  friend constexpr bool operator==(const Geometry&, const Geometry&) = default;
};

}  // namespace penstock::arena
