#include "update_maps.h"

#include <algorithm>

namespace penstock::store {

using limits::kMapBlocks;

namespace {

auto first_from(std::span<const PendingBlock> blocks, uint32_t block) {
  return std::lower_bound(blocks.begin(), blocks.end(), block,
                          [](const PendingBlock& one, uint32_t b) { return one.block < b; });
}

}  // namespace

BlockRange within_map(const BlockRange& range, uint32_t index) {
  return {std::max(range.first, index * kMapBlocks), std::min(range.end, (index + 1) * kMapBlocks)};
}

bool any_in(std::span<const PendingBlock> blocks, const BlockRange& range) {
  const auto at = first_from(blocks, range.first);
  return at != blocks.end() && at->block < range.end;
}

bool change_map(const UpdateEffect& effect, std::span<const PendingBlock> blocks,
                const BlockRange& range, uint32_t index, BlockMap& map,
                const std::function<void(uint32_t, BlockRef)>& replace) {
  const BlockRange its = within_map(range, index);
  auto at = first_from(blocks, its.first);
  bool any = false;
  for (uint32_t block = its.first; block < its.end; ++block) {
    const uint32_t within = block % kMapBlocks;
    if (at != blocks.end() && at->block == block) {
      replace(within, at->ref);
      ++at;
      any = true;
    } else if (!map.blocks[within].hole() && effect.block(block) == UpdateEffect::Block::zeros) {
      replace(within, BlockRef());
      any = true;
    }
  }
  const uint32_t valid_end = effect.valid_end(index, map.valid_end);
  any |= valid_end != map.valid_end;
  map.valid_end = valid_end;
  return any;
}

}  // namespace penstock::store
