#include "penstock/lanes/transfer_pool.h"

#include "ring_source.h"

#include <thread>

#include "penstock/lanes/limits.h"
#include "penstock/lanes/session.h"

namespace penstock::lanes {

TransferPool::~TransferPool() = default;

Outcome<std::unique_ptr<route::Transfers>> TransferPool::make(engine::DeviceMemory& devices,
                                                              uint64_t slots_bytes) {
  TRY_ASSIGN(connection::Region * slots, session_.regions().make(slots_bytes));
  Outcome<Ring*> ring = session_.rings().make(limits::kTransferEntries, 1);
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

// Gives back what transfers that did not start would have used. Sessions have few rings and
// regions: a later try must not find that none are left.
void TransferPool::give_up(connection::Region* slots, Ring* ring) {
  const Outcome<void> destroyed =
      ring != nullptr ? session_.rings().destroy(ring) : Outcome<void>();
  const Outcome<void> released = session_.regions().release(slots);
  for (const Outcome<void>& ended : {destroyed, released}) {
    if (!ended) log::warning("after transfers that did not start: {}", ended.error().message);
  }
}

// With the mutex held.
Outcome<void> TransferPool::start(engine::DeviceMemory& devices) {
  if (first_ != nullptr) return {};
  TRY_ASSIGN(first_, make(devices, limits::kTransferSlotsBytes));
  devices_ = &devices;
  session_.cache().use_devices(devices);
  return {};
}

// The first lane uses those that are there already: a program with one thread needs no others.
TransferPool::ForLane TransferPool::for_lane() {
  const std::lock_guard lock(mutex_);
  if (first_ == nullptr) return {};
  const uint32_t number = lanes_begun_++ % limits::kLaneTransfersMax;
  while (of_lanes_.size() < number) {
    auto made = make(*devices_, limits::kLaneSlotsBytes);
    if (!made) {
      log::debug("no transfers of its own for a lane: {}", made.error().message);
      return {first_.get(), 0};
    }
    of_lanes_.push_back(std::move(*made));
  }
  return {number == 0 ? first_.get() : of_lanes_[number - 1].get(), number};
}

Outcome<std::vector<route::Transfers*>> TransferPool::for_links(engine::DeviceMemory& devices,
                                                                size_t links) {
  const std::lock_guard lock(mutex_);
  TRY(start(devices));
  const size_t own = std::min<size_t>(links, limits::kLinkTransfersMax);
  while (of_links_.size() + 1 < own) {
    TRY_ASSIGN(std::unique_ptr<route::Transfers> more, make(devices, limits::kTransferSlotsBytes));
    of_links_.push_back(std::move(more));
  }
  std::vector<route::Transfers*> out;
  for (size_t i = 0; i < links; ++i) {
    const size_t which = i % own;
    out.push_back(which == 0 ? first_.get() : of_links_[which - 1].get());
  }
  return out;
}

Outcome<connection::Region*> TransferPool::add_region(engine::DeviceMemory& devices,
                                                      const engine::DeviceSpan& span,
                                                      engine::DeviceMemory* owner) {
  {
    const std::lock_guard lock(mutex_);
    TRY(start(devices));
  }
  ASSERT(first_ != nullptr);
  first_->learn_costs(span.device);
  TRY_ASSIGN(connection::Region * region, session_.regions().add_device(span, owner));
  show_to_cards(devices, *region);
  return region;
}

// Where that cannot be, transfers go by way of host memory.
void TransferPool::show_to_cards(engine::DeviceMemory& devices, connection::Region& region) {
  if ((session_.connection().features() & wire::kFeatureDeviceRegions) == 0) return;
  Outcome<engine::DmaBuf> memory = devices.export_dma_buf(*region.device);
  const Outcome<void> shown =
      memory ? session_.regions().show(region, std::move(*memory)) : memory.error();
  if (!shown) log::debug("network cards do not reach GPU memory: {}", shown.error().message);
}

void TransferPool::let_go_of(connection::Region& region) {
  ASSERT(region.released.load(std::memory_order_relaxed));
  if (!region.device) return;
  // The load acquires what is released at the end of each.
  for (const connection::Region::Count& count : region.transfers) {
    while (count.value.load(std::memory_order_seq_cst) > 0) {
      first_->help();
      std::this_thread::yield();
    }
  }
}

void TransferPool::end() {
  of_links_.clear();
  of_lanes_.clear();
  first_.reset();
}

}  // namespace penstock::lanes
