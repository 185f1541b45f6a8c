// Whether capabilities are signed by a key of the map: what the targets of a process ask.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "penstock/chain.h"
#include "penstock/membership.h"
#include "penstock/tls.h"

namespace penstock::cluster {

// Thread safe.
class Verifier final : public chain::CapabilityJudge {
 public:
  // Nodes prove who they are; without that nothing is asked for.
  void begin() { proves_.store(true, std::memory_order_relaxed); }
  // The map has others. `refresh` is called when one is shown that the map does not have yet.
  void take(const membership::ClusterMap& map) {
    const std::lock_guard lock(mutex_);
    keys_.clear();
    for (const auto& [id, key] : map.signing_keys()) keys_[id.value] = key.key.bytes;
    has_keys_.store(!keys_.empty(), std::memory_order_relaxed);
  }

  bool are_asked_for() const override {
    return proves_.load(std::memory_order_relaxed) && has_keys_.load(std::memory_order_relaxed);
  }
  Verdict judge(const wire::Capability& capability) override {
    tls::VerifyingKey key;
    {
      const std::lock_guard lock(mutex_);
      const auto found = keys_.find(capability.key);
      if (found == keys_.end()) return Verdict::unknown_key;
      key = found->second;
    }
    const bool is_signed = tls::is_signed(capability.signed_bytes(), capability.signature, key);
    return is_signed ? Verdict::good : Verdict::forged;
  }

 private:
  std::atomic<bool> proves_{false};    // relaxed: settled before targets are open
  std::atomic<bool> has_keys_{false};  // relaxed: a moment more or less
  engine::Mutex mutex_;
  std::map<uint32_t, tls::VerifyingKey> keys_;  // under the mutex
};

}  // namespace penstock::cluster
