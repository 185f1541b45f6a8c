#include "penstock/chain/known_chains.h"

#include <mutex>

namespace penstock::chain {

void KnownChains::learn(const View& view) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const View>& known = views_[view.chain];
  if (known != nullptr && known->version >= view.version) return;
  known = std::make_shared<const View>(view);
  changes_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<const View> KnownChains::find(ChainId chain) const {
  const std::lock_guard lock(mutex_);
  const auto found = views_.find(chain);
  return found == views_.end() ? nullptr : found->second;
}

}  // namespace penstock::chain
