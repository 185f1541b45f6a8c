// A session's regions of GPU memory.
#include "limits.h"
#include "ring_source.h"
#include "session.h"

#include <thread>

namespace penstock::api {

Outcome<std::unique_ptr<route::Transfers>> Session::make_transfers(engine::DeviceMemory& devices) {
  TRY_ASSIGN(Region * slots, make_region(limits::kTransferSlotsBytes));
  TRY_ASSIGN(Ring * ring, make_ring(limits::kTransferEntries, 1));
  const auto make_source = [&](engine::Loop& loop) {
    return std::make_unique<RingSource>(loop, *ring, *slots);
  };
  return route::Transfers::start(devices, make_source,
                                 route::MoverConfig{.slots = {slots->base, slots->size}});
}

Outcome<Region*> Session::add_device_region(engine::DeviceMemory& devices,
                                            const engine::DeviceSpan& span,
                                            engine::DeviceMemory* owner) {
  {
    const std::lock_guard lock(transfers_mutex_);
    if (transfers_ == nullptr) {
      TRY_ASSIGN(transfers_, make_transfers(devices));
      cache_.use_devices(devices);
    }
  }
  auto region = std::make_unique<Region>();
  TRY(number_region(*region));
  region->base = span.data;
  region->size = span.length;
  region->device = span;
  region->owner = owner;
  Region* const raw = region.get();
  const std::lock_guard lock(mutex_);
  regions_in_making_.erase(raw->id);
  regions_[raw->id] = std::move(region);
  return raw;
}

void Session::release_device_region(Region& region) {
  // Nobody starts operations on it any more; those in progress end by themselves. Acquire pairs
  // with the release at the end of each.
  while (region.transfers.load(std::memory_order_acquire) > 0) {
    transfers_->help();
    std::this_thread::yield();
  }
  if (region.owner == nullptr) return;
  const Status released = region.owner->release(*region.device);
  if (!released.ok()) log::error("release GPU memory: {}", released.name());
}

}  // namespace penstock::api
