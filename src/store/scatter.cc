#include "scatter.h"

#include "map_records.h"

namespace penstock::store {

uint32_t scattered_blocks(const BlockMap& map, uint32_t quarter, uint32_t breaks_min) {
  const BlockRef* const blocks = map.blocks.data() + quarter * limits::kQuarterBlocks;
  uint32_t breaks = 0;
  BlockNumber before = blocks[0].physical;
  uint32_t mapped = before == kHole ? 0 : 1;
  for (uint32_t i = 1; i < limits::kQuarterBlocks; ++i) {
    const BlockNumber place = blocks[i].physical;
    mapped += place == kHole ? 0 : 1;
    const bool both = before != kHole && place != kHole;
    breaks += both && place != before + 1 ? 1 : 0;
    before = place;
  }
  return breaks >= breaks_min ? mapped : 0;
}

uint32_t scattered_blocks(const BlockMap& map, uint32_t breaks_min) {
  uint32_t blocks = 0;
  for (uint32_t quarter = 0; quarter < limits::kMapQuarters; ++quarter) {
    blocks += scattered_blocks(map, quarter, breaks_min);
  }
  return blocks;
}

Status ScatterScan::body(engine::KvTransaction& transaction) {
  count = 0;
  more = false;
  uint32_t seen = 0;
  const EncodedMapKey from = encode_key(begin);
  const EncodedMapKey to = encode_key_after(ChainId(UINT32_MAX), InodeId(UINT64_MAX));
  return scan_places(transaction, as_view(from), as_view(to), limits::kSweepKeys,
                     [&](const MapKey& key, const BlockMap& map) {
                       if (scattered_blocks(map, breaks_min) != 0) keys[count++] = key;
                       // An index one beyond the largest still sorts between this chunk and the
                       // next.
                       next = {key.chain, key.chunk, key.index + 1};
                       more = ++seen == limits::kSweepKeys;
                     });
}

}  // namespace penstock::store
