// How far the blocks of a map lie apart, and which maps have such blocks.
#pragma once

#include "block_map.h"

#include "penstock/engine.h"

namespace penstock::store {

// The blocks of a quarter of the map if reading them in order needs at least `breaks_min` disk
// operations more than it would if they lay together, else 0. Holes do not count.
uint32_t scattered_blocks(const BlockMap& map, uint32_t quarter, uint32_t breaks_min);
// Of all its quarters.
uint32_t scattered_blocks(const BlockMap& map, uint32_t breaks_min);

// Looks through some committed maps in the order of their keys.
struct ScatterScan final : engine::KvOp {
  MapKey begin;
  uint32_t breaks_min = 1;
  // out
  uint32_t count = 0;
  std::array<MapKey, limits::kSweepKeys> keys;  // of those that are scattered
  bool more = false;
  MapKey next;  // where to go on, if there is more

  Status body(engine::KvTransaction& transaction) override;
};

}  // namespace penstock::store
