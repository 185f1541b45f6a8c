#include "ghost.h"

#include <algorithm>

namespace penstock::arena {

Ghost::Ghost(uint32_t capacity)
    : mask_(std::bit_ceil(std::max(capacity / kWaysUsed, 1u)) - 1),
      buckets_(std::make_unique<Bucket[]>(mask_ + 1)) {}

// Relaxed throughout: each word counts by itself, and orders nothing else.
bool Ghost::touch(Extent extent, Blocks blocks) {
  const uint64_t hash = hash_of(extent);
  Bucket& bucket = buckets_[hash & mask_];
  // Never 0, which is a free way.
  const uint32_t print = static_cast<uint32_t>(hash >> 36) | 1u;
  const uint32_t last = std::clamp(blocks.end, 1u, kBlocks) - 1;
  for (std::atomic<uint32_t>& way : bucket.seen) {
    const uint32_t seen = way.load(std::memory_order_relaxed);
    if (seen >> 4 != print) continue;
    if (blocks.first <= (seen & 15)) return true;
    way.store(print << 4 | last, std::memory_order_relaxed);
    return false;
  }
  const uint32_t next = bucket.next.load(std::memory_order_relaxed);
  bucket.seen[next % kWays].store(print << 4 | last, std::memory_order_relaxed);
  bucket.next.store((next + 1) % kWays, std::memory_order_relaxed);
  return false;
}

}  // namespace penstock::arena
