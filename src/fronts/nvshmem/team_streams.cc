#include "team_streams.h"

namespace penstock::nvshmem {

Outcome<gpu::SymmetricDevice*> TeamStreams::of(const symm::Team& team) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<gpu::SymmetricDevice>& one = all_.at(team.id());
  if (one == nullptr) {
    TRY_ASSIGN(one, gpu::open_symmetric_device(device_));
  }
  return one.get();
}

}  // namespace penstock::nvshmem
