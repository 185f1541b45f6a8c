// What a kernel that makes a collective operation on a stream is given, and how the host divides
// the work among blocks. All PEs divide alike, as they know the same of it.
#pragma once

#include "penstock_device/symm/state.h"

#if defined(__CUDACC__)
#define PENSTOCK_ANYWHERE __host__ __device__
#else
#define PENSTOCK_ANYWHERE
#endif

namespace penstock::device {

enum class GridKind : uint32_t { broadcast, fcollect, alltoall, reduce, reducescatter };

struct GridWork {
  void* dest;
  const void* source;
  // Of a reduce the whole; else what each member gives, or gives to each.
  uint64_t bytes;
  // By marked words (marked.h): pairs for each block from each member; 0: not so.
  uint64_t pairs;
  // The team: PE numbers are of the world.
  int32_t start;
  int32_t stride;
  int32_t size;
  int32_t index;
  int32_t team;
  int32_t root;  // of a broadcast: its index
  GridKind kind;
  uint32_t blocks;  // those that wait for the other PEs; blocks beyond copy within this PE
};
static_assert(sizeof(GridWork) == 64, "the argument of kernels");

constexpr uint32_t kGridThreads = 512;
constexpr uint32_t kGridLocalBlocks =
    16;  // each moves 45 GB/s, at twice the rate of a link together
// A block more pays from here on: its waits cost as much as this many bytes.
constexpr uint64_t kGridBlockBytes = 8192;
constexpr uint64_t kGridLocalBlockBytes = 65536;
constexpr uint64_t kMarkedPairsLeast = 128;
constexpr uint64_t kPairBytes = 8;  // that a pair carries

struct GridPlan {
  uint64_t pairs;
  uint32_t blocks;
  uint32_t local_blocks;
  uint32_t threads;

  PENSTOCK_ANYWHERE constexpr uint32_t grid() const { return blocks + local_blocks; }
};

PENSTOCK_ANYWHERE constexpr uint64_t divided_up(uint64_t value, uint64_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}
PENSTOCK_ANYWHERE constexpr uint64_t within(uint64_t value, uint64_t least, uint64_t most) {
  return value < least ? least : value > most ? most : value;
}

// How many bytes marked words carry from each member: what fits those of all blocks.
PENSTOCK_ANYWHERE constexpr uint64_t marked_bytes_max(int size) {
  return kSymmMarkedPairs / static_cast<uint64_t>(size) * kSymmMarkedBlocks * kPairBytes;
}

PENSTOCK_ANYWHERE constexpr GridPlan marked_plan(int size, uint64_t bytes) {
  const uint64_t all = divided_up(bytes, kPairBytes);
  const uint64_t fitting = kSymmMarkedPairs / static_cast<uint64_t>(size);
  const uint64_t least = kMarkedPairsLeast < fitting ? kMarkedPairsLeast : fitting;
  const uint64_t pairs = within(divided_up(all, kSymmMarkedBlocks), least, fitting);
  // No block is without a word: each is an answer, too.
  return {pairs, static_cast<uint32_t>(divided_up(all, pairs)), 0,
          static_cast<uint32_t>(
              within(divided_up(pairs < all ? pairs : all, 32) * 32, 32, kGridThreads))};
}

// `bytes` as in GridWork, not 0; a team of 1 to kSymmNearMax.
PENSTOCK_ANYWHERE constexpr GridPlan grid_plan(GridKind kind, int size, uint64_t bytes) {
  if (bytes <= marked_bytes_max(size)) return marked_plan(size, bytes);
  const bool is_reduction = kind == GridKind::reduce || kind == GridKind::reducescatter;
  const uint64_t moved =
      kind == GridKind::reduce ? divided_up(bytes, static_cast<uint64_t>(size)) : bytes;
  return {0, static_cast<uint32_t>(within(divided_up(moved, kGridBlockBytes), 1, kSymmGridBlocks)),
          is_reduction ? 0
                       : static_cast<uint32_t>(
                             within(divided_up(bytes, kGridLocalBlockBytes), 1, kGridLocalBlocks)),
          kGridThreads};
}

}  // namespace penstock::device
