// A session's regions of GPU memory.
#include "limits.h"
#include "ring_source.h"
#include "session.h"

#include <thread>

namespace penstock::api {

Outcome<std::unique_ptr<route::Transfers>> Session::make_transfers(engine::DeviceMemory& devices,
                                                                   uint64_t slots_bytes) {
  TRY_ASSIGN(Region * slots, make_region(slots_bytes));
  Outcome<Ring*> ring = make_ring(limits::kTransferEntries, 1);
  if (!ring) {
    give_up(slots, nullptr);
    return ring.error();
  }
  const auto make_source = [&](engine::Loop& loop) {
    return std::make_unique<RingSource>(loop, **ring, *slots);
  };
  auto started = route::Transfers::start(devices, make_source,
                                         route::MoverConfig{.slots = {slots->base, slots->size}});
  if (!started) give_up(slots, *ring);
  return started;
}

// What transfers that did not start would have used. Sessions have few of both: whoever tries again
// must not find that there are none left.
void Session::give_up(Region* slots, Ring* ring) {
  const Outcome<void> destroyed = ring != nullptr ? destroy_ring(ring) : Outcome<void>();
  const Outcome<void> released = release_region(slots);
  for (const Outcome<void>& ended : {destroyed, released}) {
    if (!ended) log::warning("after transfers that did not start: {}", ended.error().message);
  }
}

// With transfers_mutex_ held.
Outcome<void> Session::start_transfers(engine::DeviceMemory& devices) {
  if (transfers_ != nullptr) return {};
  TRY_ASSIGN(transfers_, make_transfers(devices, limits::kTransferSlotsBytes));
  devices_ = &devices;
  cache_.use_devices(devices);
  return {};
}

// The first lane uses those that are there already: a program with one thread needs no others.
Session::LaneTransfers Session::lane_transfers() {
  const std::lock_guard lock(transfers_mutex_);
  if (transfers_ == nullptr) return {};
  const uint32_t number = lanes_begun_++ % limits::kLaneTransfersMax;
  while (lane_transfers_.size() < number) {
    auto made = make_transfers(*devices_, limits::kLaneSlotsBytes);
    if (!made) {
      log::debug("no transfers of its own for a lane: {}", made.error().message);
      return {transfers_.get(), 0};
    }
    lane_transfers_.push_back(std::move(*made));
  }
  return {number == 0 ? transfers_.get() : lane_transfers_[number - 1].get(), number};
}

Outcome<std::vector<route::Transfers*>> Session::link_transfers(engine::DeviceMemory& devices,
                                                                size_t links) {
  const std::lock_guard lock(transfers_mutex_);
  TRY(start_transfers(devices));
  const size_t own = std::min<size_t>(links, limits::kLinkTransfersMax);
  while (more_transfers_.size() + 1 < own) {
    TRY_ASSIGN(std::unique_ptr<route::Transfers> more,
               make_transfers(devices, limits::kTransferSlotsBytes));
    more_transfers_.push_back(std::move(more));
  }
  std::vector<route::Transfers*> out;
  for (size_t i = 0; i < links; ++i) {
    const size_t which = i % own;
    out.push_back(which == 0 ? transfers_.get() : more_transfers_[which - 1].get());
  }
  return out;
}

Outcome<Region*> Session::add_device_region(engine::DeviceMemory& devices,
                                            const engine::DeviceSpan& span,
                                            engine::DeviceMemory* owner) {
  {
    const std::lock_guard lock(transfers_mutex_);
    TRY(start_transfers(devices));
  }
  transfers_->learn_costs(span.device);
  auto region = std::make_unique<Region>();
  TRY(number_region(*region));
  region->base = span.data;
  region->size = span.length;
  region->device = span;
  region->owner = owner;
  Region* const raw = region.get();
  const std::lock_guard lock(mutex_);
  regions_[raw->id] = std::move(region);
  return raw;
}

void Session::release_device_region(Region& region) {
  if (region.publication != nullptr) {
    const Outcome<void> unpublished = unpublish_region(region);
    if (!unpublished) log::warning("release GPU memory: {}", unpublished.error().message);
  }
  // Nobody starts operations on it any more; those in progress end by themselves. The load acquires
  // what is released at the end of each.
  region.released.store(true, std::memory_order_seq_cst);
  for (const Region::Count& count : region.transfers) {
    while (count.value.load(std::memory_order_seq_cst) > 0) {
      transfers_->help();
      std::this_thread::yield();
    }
  }
  give_back_memory(region);
}

// What the library allocated or imported for the region; nothing is in flight on it.
void Session::give_back_memory(const Region& region) {
  if (region.owner == nullptr) return;
  const Status released = region.owner->release(*region.device);
  if (!released.ok()) log::error("release GPU memory: {}", released.name());
}

}  // namespace penstock::api
