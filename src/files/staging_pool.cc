#include "penstock/files/staging_pool.h"

#include "penstock/files/limits.h"

namespace penstock::files {

Outcome<Staging*> StagingPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      Staging* const staging = free_.back();
      free_.pop_back();
      return staging;
    }
  }
  auto made = std::make_unique<Staging>();
  TRY_ASSIGN(made->region, session_.regions().make(limits::kStagingBytes));
  const std::lock_guard lock(mutex_);
  all_.push_back(std::move(made));
  return all_.back().get();
}

void StagingPool::give_back(Staging* staging) {
  const std::lock_guard lock(mutex_);
  free_.push_back(staging);
}

Outcome<void> StagingPool::pin(Staging& staging, engine::DeviceMemory& devices) {
  if (staging.pinned_for == &devices) return {};
  TRY(devices.pin({staging.region->base, staging.region->size}, false));
  staging.pinned_for = &devices;
  return {};
}

StagingPool::~StagingPool() {
  const std::lock_guard lock(mutex_);
  for (const auto& staging : all_) {
    if (staging->pinned_for == nullptr) continue;
    staging->pinned_for->unpin({staging->region->base, staging->region->size});
    staging->pinned_for = nullptr;
  }
}

}  // namespace penstock::files
