// What a node knows of chains: the newest version that it has heard of each.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "penstock/chain/view.h"

namespace penstock::chain {

// Thread safe: whoever speaks with the controller writes it, the ChainNets of all loops read it.
class KnownChains {
 public:
  // `refresh` is called, by any thread and as often as it may be, when somebody has found that a
  // chain has changed since, or that it does not answer.
  explicit KnownChains(std::function<void(ChainId)> refresh) : refresh_(std::move(refresh)) {}

  // An older version than the known one is ignored.
  void learn(const View& view);
  // Null for a chain of which nothing was heard.
  std::shared_ptr<const View> find(ChainId chain) const;
  // Grows with all that is learnt.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  void refresh(ChainId chain) const { refresh_(chain); }

 private:
  const std::function<void(ChainId)> refresh_;
  mutable engine::Mutex mutex_;
  std::map<ChainId, std::shared_ptr<const View>> views_;
  // Release under the mutex pairs with the acquire of a reader, which takes the mutex when it sees
  // a new value.
  std::atomic<uint64_t> changes_{0};
};

}  // namespace penstock::chain
