// The layouts of new files.
#include "penstock/meta/layout.h"

#include <algorithm>

namespace penstock::meta {
namespace {

bool has(const std::vector<ChainId>& chains, ChainId chain) {
  return std::find(chains.begin(), chains.end(), chain) != chains.end();
}

bool list_is_good(const std::vector<ChainId>& chains) {
  if (chains.size() > kListedChainsMax) return false;
  for (size_t i = 1; i < chains.size(); ++i) {
    const auto end = chains.begin() + static_cast<ptrdiff_t>(i);
    if (std::find(chains.begin(), end, chains[i]) != end) return false;
  }
  return true;
}

// As decision 0047 says. Which chains it draws is no part of the format: they are stored.
std::vector<ChainId> draw_chains(const Layout& layout, uint32_t count) {
  ASSERT(count > 0 && count < layout.chain_count && count <= kListedChainsMax);
  std::vector<ChainId> chains;
  chains.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t place = mix64(layout.seed + i) % layout.chain_count;
    const auto chain_at = [&](uint64_t at) {
      return ChainId(layout.chain_first + static_cast<uint32_t>(at));
    };
    // Ends: fewer are taken than there are.
    while (has(chains, chain_at(place))) place = (place + 1) % layout.chain_count;
    chains.push_back(chain_at(place));
  }
  ASSERT(list_is_good(chains) && chains.size() == count);
  return chains;
}

}  // namespace

bool layout_is_good(const Layout& layout) {
  if (layout.chunk_bytes_log2 >= 64 || layout.chunk_bytes() < limits::kChunkBytesMin ||
      layout.chunk_bytes() > limits::kChunkBytesMax) {
    return false;
  }
  if (layout.chain_count == 0 || layout.copies == 0 || layout.copies > kCopiesMax) return false;
  if (static_cast<uint8_t>(layout.scheme) >= kSchemes) return false;
  if (static_cast<uint8_t>(layout.media) >= kMediaNumbers) return false;
  // A stripe that no list could hold is one over the whole range.
  const bool stripe_is_good =
      layout.stripe <= kListedChainsMax || layout.stripe >= layout.chain_count;
  return stripe_is_good && list_is_good(layout.chains);
}

void settle_layout(Layout& layout, InodeId file) {
  ASSERT(file != InodeId());
  DASSERT(layout_is_good(layout));
  if (layout.seed == 0) layout.seed = mix64(file.value);
  if (layout.stripe > 0 && layout.stripe < layout.chain_count && layout.chains.empty()) {
    layout.chains = draw_chains(layout, layout.stripe);
  }
  layout.stripe = 0;
}

}  // namespace penstock::meta
