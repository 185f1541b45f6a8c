// Streams of the library for what the host does together with others: one for each team, as its
// kernels wait there until the other PEs have come, and nothing else may stand behind them.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "penstock/gpu.h"
#include "penstock/symm.h"

namespace penstock::nvshmem {

// Thread safe. Streams share the few queues that a GPU has for a process (8 unless
// CUDA_DEVICE_MAX_CONNECTIONS says more), so only teams that need one have one.
class TeamStreams {
 public:
  explicit TeamStreams(engine::DeviceId device) : device_(device) {}
  // Made at the first call for a team of this number; later teams of the number have it, too.
  Outcome<gpu::SymmetricDevice*> of(const symm::Team& team);

 private:
  const engine::DeviceId device_;
  std::mutex mutex_;
  std::array<std::unique_ptr<gpu::SymmetricDevice>, device::kSymmTeamsMax> all_;
};

}  // namespace penstock::nvshmem
