#include "scatter.h"

namespace penstock::store {

uint32_t scattered_blocks(const BlockMap& map, uint32_t breaks_min) {
  uint32_t breaks = 0;
  uint32_t mapped = map.blocks[0].hole() ? 0 : 1;
  for (uint32_t i = 1; i < limits::kMapBlocks; ++i) {
    const BlockRef& before = map.blocks[i - 1];
    const BlockRef& block = map.blocks[i];
    mapped += block.hole() ? 0 : 1;
    const bool both = !before.hole() && !block.hole();
    breaks += both && block.physical != before.physical + 1 ? 1 : 0;
  }
  return breaks >= breaks_min ? mapped : 0;
}

Status ScatterScan::body(engine::KvTransaction& transaction) {
  count = 0;
  more = false;
  uint32_t seen = 0;
  Status bad;
  const EncodedMapKey from = encode_key(begin);
  const EncodedMapKey to = encode_key_after(ChainId(UINT32_MAX), InodeId(UINT64_MAX));
  TRY(transaction.scan(as_view(from), as_view(to),
                       [&](std::string_view text, std::string_view record) {
                         const auto key = decode_key(text);
                         BlockMap map;
                         bad = key ? decode_map(*key, record, map) : Status(Code::corrupt);
                         if (!bad.ok()) return false;
                         if (scattered_blocks(map, breaks_min) != 0) keys[count++] = *key;
                         // An index one beyond the largest still sorts between this chunk and the
                         // next.
                         next = {key->chain, key->chunk, key->index + 1};
                         more = ++seen == limits::kSweepKeys;
                         return !more;
                       }));
  return bad;
}

}  // namespace penstock::store
