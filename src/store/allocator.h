// Which blocks of the data files are free: a buddy system over bitmaps.
//
// Block numbers are divided into areas of 2^kOrderMax blocks. In each area, for every order k, a
// bitmap says which aligned runs of 2^k blocks are free and not part of a larger free run. Above
// the areas, for every order, a tree of bitmaps says which areas have such a run. An allocation
// takes the run at the lowest number, so that what is used stays together.
//
// Costs about two bits for each block of an area that is free in part, and next to nothing for
// areas that are wholly free or wholly in use, which have no bitmaps. Not thread safe; knows
// nothing of disks.
#pragma once

#include "limits.h"

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/base.h"

namespace penstock::store {

// A run of blocks in the data files.
struct BlockRun {
  BlockNumber first = 0;
  uint32_t count = 0;
  friend constexpr auto operator<=>(const BlockRun&, const BlockRun&) = default;
};

namespace internal {

inline constexpr uint32_t kOrders = limits::kOrderMax + 1;
// 64-bit words of an order's bitmap in an area.
constexpr uint32_t words_of(uint32_t order) {
  return order <= limits::kOrderMax - 6 ? 1u << (limits::kOrderMax - 6 - order) : 1;
}
// Where each order's bitmap begins, and where the last one ends.
constexpr std::array<uint32_t, kOrders + 1> first_words() {
  std::array<uint32_t, kOrders + 1> result{};
  for (uint32_t k = 0; k < kOrders; ++k) result[k + 1] = result[k] + words_of(k);
  return result;
}
inline constexpr auto kFirstWord = first_words();

}  // namespace internal

// A set of small numbers with an ordered search in a few steps.
class SummaryBitmap {
 public:
  void grow(uint32_t size);
  void set(uint32_t index);
  void clear(uint32_t index);
  bool test(uint32_t index) const {
    return index / 64 < levels_[0].size() && (levels_[0][index / 64] >> (index % 64) & 1) != 0;
  }
  // The smallest member.
  std::optional<uint32_t> first() const;

 private:
  static constexpr int kLevels = 4;  // 64^4 areas are what 38-bit block numbers have
  std::array<std::vector<uint64_t>, kLevels> levels_;
};

class BlockAllocator {
 public:
  static constexpr uint32_t kAreaBlocks = 1 << limits::kOrderMax;

  // `run` joins as free space. None of it was known before.
  void add(BlockRun run);
  // Takes exactly these blocks; false, and nothing changed, unless all of them are free.
  bool take(BlockRun run);
  // Up to `count` blocks in one run: all of them if any run is long enough, else the longest
  // power of two that is free. nullopt when nothing is free. At most 2^kOrderMax at a time.
  std::optional<BlockRun> allocate(uint32_t count);
  // Gives blocks back that were allocated or taken, whole or in part.
  void release(BlockRun run);

  uint64_t free_blocks() const { return free_blocks_; }
  uint64_t total_blocks() const { return total_blocks_; }
  bool is_free(BlockNumber block) const;
  // Areas that have bitmaps.
  uint32_t mixed_areas() const { return mixed_areas_; }
  // Whether the bitmaps agree with one another; slow, for tests.
  bool consistent() const;

 private:
  static constexpr uint32_t kOrders = internal::kOrders;
  static constexpr auto kFirstWord = internal::kFirstWord;

  struct Area {
    std::array<uint64_t, kFirstWord[kOrders]> bits{};
    std::array<uint16_t, kOrders> runs{};  // set bits of each order
    uint32_t all_runs = 0;
  };
  static BlockNumber first_of(uint32_t area) { return BlockNumber{area} * kAreaBlocks; }
  static uint32_t area_of(BlockNumber block) { return static_cast<uint32_t>(block / kAreaBlocks); }
  // A wholly free area has no bitmaps: it is known by areas_with_ of the largest order.
  bool wholly_free(uint32_t area) const { return areas_with_[limits::kOrderMax].test(area); }
  Area& make_area(uint32_t area);
  void drop_area(uint32_t area);

  // `index` counts runs of the order within the area.
  bool test(uint32_t area, uint32_t order, uint32_t index) const;
  void mark(uint32_t area, uint32_t order, uint32_t index);
  void unmark(uint32_t area, uint32_t order, uint32_t index);
  std::optional<uint32_t> first_run(uint32_t area, uint32_t order) const;
  // The order of the free run that holds `block`, if any.
  std::optional<uint32_t> order_of(BlockNumber block) const;
  // The lowest free run of at least `order`, cut down to it. Block number.
  std::optional<BlockNumber> take_run(uint32_t order);
  void cut(uint32_t area, uint32_t order, uint32_t index, uint32_t to_order, uint32_t to_index);
  // Frees an aligned run and merges it with its buddies.
  void free_run(BlockNumber first, uint32_t order);
  // Calls `visit(first, order)` for the largest aligned runs that make up `run`.
  template <class Visit>
  static void for_each_run(BlockRun run, Visit visit);

  std::vector<std::unique_ptr<Area>> areas_;  // null: wholly free, or wholly in use
  std::unique_ptr<Area> spare_;               // without any set bit
  uint32_t mixed_areas_ = 0;
  std::array<SummaryBitmap, kOrders> areas_with_;
  uint64_t free_blocks_ = 0;
  uint64_t total_blocks_ = 0;
};

}  // namespace penstock::store
