// From an offset in a file to the chunk and the target that hold it.
#pragma once

#include "penstock/open_files.h"

namespace penstock::inodes {

// Chunk i of a file lives on chain
//     chain_first + (start + i) mod chain_count,  start = mix64(seed) mod chain_count:
// neighbours go to different chains, and files begin on chains spread by their seed. The mapping is
// part of the format: it is computed, never stored.
class Placement {
 public:
  Placement() = default;
  explicit Placement(const meta::Layout& layout)
      : log2_(layout.chunk_bytes_log2),
        first_(layout.chain_first),
        count_(layout.chain_count),
        start_(static_cast<uint32_t>(mix64(layout.seed) % layout.chain_count)) {
    ASSERT(log2_ < 32);  // is_good() was asked
  }

  // A layout is a record on a disk: whether it can be used with so many targets.
  static bool is_good(const meta::Layout& layout, size_t targets) {
    return layout.chunk_bytes_log2 < 32 &&
           uint64_t{1} << layout.chunk_bytes_log2 >= limits::kChunkBytesMin &&
           uint64_t{1} << layout.chunk_bytes_log2 <= limits::kChunkBytesMax &&
           layout.chain_count > 0 && range_within(layout.chain_first, layout.chain_count, targets);
  }

  uint64_t chunk_bytes() const { return uint64_t{1} << log2_; }
  uint32_t chunk_of(uint64_t offset) const { return static_cast<uint32_t>(offset >> log2_); }
  uint32_t within(uint64_t offset) const {
    return static_cast<uint32_t>(offset & (chunk_bytes() - 1));
  }
  uint64_t offset_of(uint32_t chunk) const { return uint64_t{chunk} << log2_; }
  // The end of the largest file with these chunks.
  uint64_t file_bytes_max() const {
    const uint64_t all = uint64_t{1} << (32 + log2_);
    return all < limits::kFileBytesMax ? all : limits::kFileBytesMax;
  }

  uint32_t chain_of(uint32_t chunk) const {
    if (count_ == 1) return first_;
    DASSERT(start_ < count_);
    return first_ + static_cast<uint32_t>((uint64_t{start_} + chunk) % count_);
  }
  uint32_t chain_first() const { return first_; }
  uint32_t chain_count() const { return count_; }

 private:
  uint32_t log2_ = 22;
  uint32_t first_ = 0;
  uint32_t count_ = 1;
  uint32_t start_ = 0;
};

}  // namespace penstock::inodes
