// Remembers which extents were read lately and are not in the cache, so that only extents that are
// read again are filled: one pass over much data evicts nothing.
#pragma once

#include <atomic>
#include <memory>

#include "penstock/arena/extent.h"

namespace penstock::arena {

// Any thread, without locks: a touch that meets another at the same moment may be lost. Remembers
// the last `capacity` extents, or nearly so many, by 27 bits of their hash.
class Ghost {
 public:
  explicit Ghost(uint32_t capacity);

  // Blocks of an extent that were read: [first, end).
  struct Blocks {
    uint32_t first = 0;
    uint32_t end = 0;
  };
  // Notes a read. True if the extent was read before: a read further on in the extent belongs to
  // the same pass and does not count.
  bool touch(Extent extent, Blocks blocks);

 private:
  static constexpr uint32_t kWays = 7;
  // As many are filled on average: buckets are not equally full.
  static constexpr uint32_t kWaysUsed = 4;
  // 28 bits, odd, of the hash over 4 bits of the last block read; 0: free.
  struct alignas(32) Bucket {
    std::atomic<uint32_t> seen[kWays];
    std::atomic<uint32_t> next;  // the one of `seen` that is replaced next
  };

  uint64_t mask_;
  std::unique_ptr<Bucket[]> buckets_;
};

}  // namespace penstock::arena
