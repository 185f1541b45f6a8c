// Signs what nodes may do, on the node with the names: docs/decisions/0066.
#pragma once

#include <memory>
#include <mutex>

#include "penstock/cluster.h"
#include "penstock/engine.h"
#include "penstock/tls.h"

namespace penstock::agent {

// Thread safe; may block. The participant outlives it.
class CapabilitySigner {
 public:
  CapabilitySigner(cluster::Participant& participant, const engine::Clock& clock)
      : participant_(participant), clock_(clock) {}

  // The first key. From then on targets ask for capabilities.
  Status begin() {
    const std::lock_guard lock(mutex_);
    return renew();
  }
  // Fills in key and signature. The key is another one each day, and for each process: before it is
  // used the map has its public half. Fails where the controller cannot be asked for that.
  Status sign(wire::Capability& capability);

 private:
  Status renew();

  cluster::Participant& participant_;
  const engine::Clock& clock_;
  engine::Mutex mutex_;
  // Under the mutex.
  std::shared_ptr<const tls::SigningKey> key_;
  uint32_t number_ = 0;
  engine::Time until_{};
};

}  // namespace penstock::agent
