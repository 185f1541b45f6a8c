// By what two GPUs of a machine are connected.
#pragma once

#include "penstock/engine.h"

namespace penstock::gpu {

enum class PeerLink : uint8_t {
  none,    // the one does not reach the other one's memory
  pcie,    // by loads and stores over PCIe
  nvlink,  // the same, and words change at once across it
};

// Of two different GPUs that this process sees. Fails as devices() does.
Outcome<PeerLink> peer_link(engine::DeviceId from, engine::DeviceId to);

}  // namespace penstock::gpu
