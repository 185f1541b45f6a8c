// Memory that calls will expose again and again.
#pragma once

#include "penstock/engine.h"

namespace penstock::verbs {

// Of the host, or of a GPU: then `bytes` are addresses that stand for it, with nothing behind them,
// and what exposes a part of it says MemoryKind::device.
struct Region {
  MutableBytes bytes;
  int dma_buf = -1;             // of GPU memory; open for as long as the region is announced
  uint64_t dma_buf_offset = 0;  // where it begins there; as far into a page as `bytes`

  bool is_device() const { return dma_buf >= 0; }
  Region part(MutableBytes of) const {
    const auto offset = static_cast<uint64_t>(of.data() - bytes.data());
    DASSERT(range_within(offset, of.size(), bytes.size()));
    return {of, dma_buf, dma_buf_offset + offset};
  }
};

}  // namespace penstock::verbs
