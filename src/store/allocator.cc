#include "allocator.h"

#include <algorithm>

namespace penstock::store {

using limits::kOrderMax;

void SummaryBitmap::grow(uint32_t size) {
  uint64_t bits = size;
  for (auto& level : levels_) {
    const uint64_t words = (bits + 63) / 64;
    if (level.size() < words) level.resize(words);
    bits = words;
  }
}

void SummaryBitmap::set(uint32_t index) {
  for (auto& level : levels_) {
    uint64_t& word = level[index / 64];
    const bool had_some = word != 0;
    word |= uint64_t{1} << (index % 64);
    if (had_some) return;
    index /= 64;
  }
}

void SummaryBitmap::clear(uint32_t index) {
  for (auto& level : levels_) {
    uint64_t& word = level[index / 64];
    ASSERT((word >> (index % 64) & 1) != 0);
    word &= ~(uint64_t{1} << (index % 64));
    if (word != 0) return;
    index /= 64;
  }
}

std::optional<uint32_t> SummaryBitmap::first() const {
  const auto& top = levels_[kLevels - 1];
  if (top.empty() || top[0] == 0) return std::nullopt;
  uint32_t index = 0;
  for (int level = kLevels - 1; level >= 0; --level) {
    const auto bit =
        static_cast<uint32_t>(std::countr_zero(levels_[static_cast<size_t>(level)][index]));
    index = index * 64 + bit;
  }
  return index;
}

BlockAllocator::Area& BlockAllocator::make_area(uint32_t area) {
  if (areas_[area] == nullptr) {
    areas_[area] = spare_ != nullptr ? std::move(spare_) : std::make_unique<Area>();
    ++mixed_areas_;
  }
  return *areas_[area];
}

// It has become wholly free or wholly used.
void BlockAllocator::drop_area(uint32_t area) {
  if (areas_[area] == nullptr) return;
  ASSERT(areas_[area]->all_runs == 0 && mixed_areas_ > 0);
  spare_ = std::move(areas_[area]);
  --mixed_areas_;
}

bool BlockAllocator::test(uint32_t area, uint32_t order, uint32_t index) const {
  if (areas_[area] == nullptr) return order == kOrderMax && wholly_free(area);
  return order < kOrderMax &&
         (areas_[area]->bits[kFirstWord[order] + index / 64] >> (index % 64) & 1) != 0;
}

void BlockAllocator::mark(uint32_t area, uint32_t order, uint32_t index) {
  if (order == kOrderMax) {
    ASSERT(!wholly_free(area));
    drop_area(area);
    areas_with_[order].set(area);
    return;
  }
  Area& a = make_area(area);
  uint64_t& word = a.bits[kFirstWord[order] + index / 64];
  const uint64_t bit = uint64_t{1} << (index % 64);
  ASSERT((word & bit) == 0);
  word |= bit;
  ++a.all_runs;
  if (a.runs[order]++ == 0) areas_with_[order].set(area);
}

void BlockAllocator::unmark(uint32_t area, uint32_t order, uint32_t index) {
  if (order == kOrderMax) {
    ASSERT(areas_[area] == nullptr);
    areas_with_[order].clear(area);
    return;
  }
  Area& a = *areas_[area];
  uint64_t& word = a.bits[kFirstWord[order] + index / 64];
  const uint64_t bit = uint64_t{1} << (index % 64);
  ASSERT((word & bit) != 0 && a.runs[order] > 0 && a.all_runs > 0);
  word &= ~bit;
  --a.all_runs;
  if (--a.runs[order] == 0) areas_with_[order].clear(area);
}

std::optional<uint32_t> BlockAllocator::first_run(uint32_t area, uint32_t order) const {
  if (order == kOrderMax) return wholly_free(area) ? std::optional<uint32_t>(0) : std::nullopt;
  if (areas_[area] == nullptr || areas_[area]->runs[order] == 0) return std::nullopt;
  const Area& a = *areas_[area];
  for (uint32_t word = 0;; ++word) {
    ASSERT(word < internal::words_of(order));
    const uint64_t bits = a.bits[kFirstWord[order] + word];
    if (bits != 0) return word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
  }
}

std::optional<uint32_t> BlockAllocator::order_of(BlockNumber block) const {
  if (block / kAreaBlocks >= areas_.size()) return std::nullopt;
  const uint32_t area = area_of(block);
  const auto within = static_cast<uint32_t>(block % kAreaBlocks);
  if (areas_[area] == nullptr) {
    return wholly_free(area) ? std::optional<uint32_t>(kOrderMax) : std::nullopt;
  }
  for (uint32_t order = 0; order < kOrders; ++order) {
    if (test(area, order, within >> order)) return order;
  }
  return std::nullopt;
}

bool BlockAllocator::is_free(BlockNumber block) const {
  return order_of(block).has_value();
}

template <class Visit>
void BlockAllocator::for_each_run(BlockRun run, Visit visit) {
  uint64_t first = run.first;
  const uint64_t end = first + run.count;
  while (first < end) {
    const uint32_t by_length = static_cast<uint32_t>(std::bit_width(end - first)) - 1;
    const uint32_t by_place =
        first == 0 ? kOrderMax : static_cast<uint32_t>(std::countr_zero(first));
    const uint32_t order = std::min({by_length, by_place, kOrderMax});
    visit(first, order);
    first += uint64_t{1} << order;
  }
}

void BlockAllocator::add(BlockRun run) {
  if (run.count == 0) return;
  const uint64_t end = uint64_t{run.first} + run.count;
  ASSERT(end <= limits::kTargetBlocksMax);
  const auto areas = std::max(static_cast<uint32_t>(areas_.size()), area_of(end - 1) + 1);
  areas_.resize(areas);
  for (auto& summary : areas_with_) summary.grow(areas);
  total_blocks_ += run.count;
  release(run);
}

void BlockAllocator::free_run(BlockNumber first, uint32_t order) {
  const uint32_t area = area_of(first);
  uint32_t index = static_cast<uint32_t>(first % kAreaBlocks) >> order;
  while (order < kOrderMax && test(area, order, index ^ 1)) {
    unmark(area, order, index ^ 1);
    index >>= 1;
    ++order;
  }
  mark(area, order, index);
}

void BlockAllocator::release(BlockRun run) {
  ASSERT(uint64_t{run.first} + run.count <= uint64_t{areas_.size()} * kAreaBlocks);
  for_each_run(run, [this](BlockNumber first, uint32_t order) {
    DASSERT(!is_free(first));
    free_run(first, order);
  });
  free_blocks_ += run.count;
  ASSERT(free_blocks_ <= total_blocks_);
}

// Turns the free run (order, index) into free runs around (to_order, to_index), which is taken.
void BlockAllocator::cut(uint32_t area, uint32_t order, uint32_t index, uint32_t to_order,
                         uint32_t to_index) {
  ASSERT(to_order <= order && to_index >> (order - to_order) == index);
  unmark(area, order, index);
  while (order > to_order) {
    --order;
    mark(area, order, (to_index >> (order - to_order)) ^ 1);
  }
  if (areas_[area] != nullptr && areas_[area]->all_runs == 0) drop_area(area);
}

bool BlockAllocator::take(BlockRun run) {
  for (uint64_t block = run.first; block < uint64_t{run.first} + run.count;) {
    const auto order = order_of(block);
    if (!order) return false;
    block = align_down(block, uint64_t{1} << *order) + (uint64_t{1} << *order);
  }
  for_each_run(run, [this](BlockNumber first, uint32_t order) {
    // A run may span several smaller free ones: take it piece by piece.
    uint32_t done = 0;
    while (done < 1u << order) {
      const BlockNumber at = first + done;
      const uint32_t area = area_of(at);
      const auto within = static_cast<uint32_t>(at % kAreaBlocks);
      const uint32_t holder = *order_of(at);
      const uint32_t piece = std::min(holder, order);
      cut(area, holder, within >> holder, piece, within >> piece);
      done += 1u << piece;
    }
  });
  ASSERT(free_blocks_ >= run.count);
  free_blocks_ -= run.count;
  return true;
}

std::optional<BlockNumber> BlockAllocator::take_run(uint32_t order) {
  for (uint32_t from = order; from < kOrders; ++from) {
    const auto area = areas_with_[from].first();
    if (!area) continue;
    const uint32_t index = *first_run(*area, from);
    const uint32_t to_index = index << (from - order);
    cut(*area, from, index, order, to_index);
    ASSERT(free_blocks_ >= uint64_t{1} << order);
    free_blocks_ -= uint64_t{1} << order;
    return first_of(*area) + (to_index << order);
  }
  return std::nullopt;
}

std::optional<BlockRun> BlockAllocator::allocate(uint32_t count) {
  ASSERT(count > 0);
  count = std::min(count, kAreaBlocks);
  uint32_t order = static_cast<uint32_t>(std::bit_width(count - 1));
  if (const auto first = take_run(order)) {
    const uint32_t surplus = (1u << order) - count;
    if (surplus != 0) release({*first + count, surplus});
    // Pairs with the look at each run in release().
    DASSERT(!is_free(*first) && !is_free(*first + count - 1));
    return BlockRun{*first, count};
  }
  while (order-- > 0) {
    if (const auto first = take_run(order)) return BlockRun{*first, 1u << order};
  }
  return std::nullopt;
}

bool BlockAllocator::consistent() const {
  uint64_t free = 0;
  uint32_t mixed = 0;
  for (uint32_t area = 0; area < areas_.size(); ++area) {
    if (areas_[area] == nullptr) {
      free += wholly_free(area) ? kAreaBlocks : 0;
      continue;
    }
    ++mixed;
    if (areas_[area]->all_runs == 0 || wholly_free(area)) return false;
    std::vector<bool> seen(kAreaBlocks);
    for (uint32_t order = 0; order < kOrders; ++order) {
      uint32_t runs = 0;
      for (uint32_t index = 0; index < kAreaBlocks >> order; ++index) {
        if (!test(area, order, index)) continue;
        ++runs;
        // Two free buddies must have been merged.
        if (order < kOrderMax && test(area, order, index ^ 1)) return false;
        for (uint32_t b = index << order; b < (index + 1) << order; ++b) {
          if (seen[b]) return false;
          seen[b] = true;
        }
        free += uint64_t{1} << order;
      }
      if (runs != areas_[area]->runs[order]) return false;
    }
  }
  return free == free_blocks_ && mixed == mixed_areas_;
}

}  // namespace penstock::store
