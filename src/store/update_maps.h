// What the commit of a chain's update changes in block maps: at a commit, and when the log is
// brought back. Pure.
#pragma once

#include "chain_records.h"
#include "update_effect.h"

#include <functional>

namespace penstock::store {

// Blocks of a chunk, [first, end).
struct BlockRange {
  uint32_t first = 0;
  uint32_t end = 0;
};

// The part of `range` that lies in map `index`.
BlockRange within_map(const BlockRange& range, uint32_t index);
// Whether any of `blocks`, which are in order, lies in the range.
bool any_in(std::span<const PendingBlock> blocks, const BlockRange& range);

// Changes `valid_end` of map `index`, and calls `replace` for each of its blocks in `range` that
// becomes another one, or a hole: with its index in the map. Returns whether anything changes.
bool change_map(const UpdateEffect& effect, std::span<const PendingBlock> blocks,
                const BlockRange& range, uint32_t index, BlockMap& map,
                const std::function<void(uint32_t, BlockRef)>& replace);

}  // namespace penstock::store
