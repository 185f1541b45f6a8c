// From an offset in a file to the chunk and the chain that hold it.
#pragma once

#include <algorithm>
#include <vector>

#include "penstock/open_files.h"

namespace penstock::inodes {

// Chunk i of a file lives on chain
//     chain_first + (start + i) mod chain_count,  start = mix64(seed) mod chain_count:
// neighbours go to different chains, and files begin on chains spread by their seed. Where the
// layout lists chains, on the chain (i mod their number) of the list. The mapping is part of the
// format: it is computed, never stored.
class Placement {
 public:
  Placement() = default;
  explicit Placement(const meta::Layout& layout)
      : log2_(layout.chunk_bytes_log2), first_(layout.chain_first), count_(layout.chain_count) {
    ASSERT(log2_ < 32);  // is_good() was asked
    if (!layout.chains.empty()) {
      count_ = static_cast<uint32_t>(layout.chains.size());
      first_ = layout.chains.front().value;
      listed_ = layout.chains;
    } else {
      start_ = static_cast<uint32_t>(mix64(layout.seed) % count_);
    }
    ASSERT(count_ > 0 && start_ < count_);
  }

  // A layout is a record on a disk: whether it can be used with these chains. Once it can it always
  // can.
  static bool is_good(const meta::Layout& layout, const ChainAddresses& chains) {
    if (layout.chunk_bytes_log2 >= 32 ||
        uint64_t{1} << layout.chunk_bytes_log2 < limits::kChunkBytesMin ||
        uint64_t{1} << layout.chunk_bytes_log2 > limits::kChunkBytesMax) {
      return false;
    }
    if (layout.scheme != meta::Scheme::copies) return false;
    if (layout.chains.empty()) {
      return layout.chain_count > 0 && chains.knows_range(layout.chain_first, layout.chain_count);
    }
    return std::all_of(layout.chains.begin(), layout.chains.end(),
                       [&chains](ChainId chain) { return chains.knows(chain); });
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

  ChainId chain_of(uint32_t chunk) const {
    if (count_ == 1) return ChainId(first_);
    DASSERT(start_ < count_);
    return chain(static_cast<uint32_t>((uint64_t{start_} + chunk) % count_));
  }
  // All chains of the file, each once: chain(i) for i below chain_count().
  ChainId chain(uint32_t i) const {
    DASSERT(i < count_);
    return listed_.empty() ? ChainId(first_ + i) : listed_[i];
  }
  uint32_t chain_count() const { return count_; }
  // Those of the chunks between two offsets, each once.
  std::vector<ChainId> chains_between(uint64_t begin, uint64_t end) const {
    std::vector<ChainId> chains;
    if (begin >= end) return chains;
    const uint32_t first = chunk_of(begin);
    const uint64_t chunks = uint64_t{chunk_of(end - 1)} - first + 1;
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(count_, chunks));
    chains.reserve(count);
    for (uint32_t i = 0; i < count; ++i) chains.push_back(chain_of(first + i));
    return chains;
  }
  // Those that may have chunks of a file with nothing beyond this length; the first chunk, which is
  // written before anything is durable of meta, is one of them.
  std::vector<ChainId> chains_within(uint64_t length) const {
    return chains_between(0, std::max<uint64_t>(length, 1));
  }
  // How far a file of this length may be written without any other chain having chunks of it.
  uint64_t reach_of(uint64_t length) const {
    if (count_ == 1) return UINT64_MAX;
    return align_up(std::max<uint64_t>(length, 1), chunk_bytes());
  }

 private:
  uint32_t log2_ = 22;
  uint32_t first_ = 0;
  uint32_t count_ = 1;
  uint32_t start_ = 0;
  std::vector<ChainId> listed_;  // empty: the range
};

}  // namespace penstock::inodes
