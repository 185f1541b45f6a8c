#include "lane_transfers.h"

#include "error.h"
#include "session.h"

#include <cerrno>
#include <thread>

namespace penstock::api {

Lane::~Lane() = default;

int Lane::check_transfer(const penstock_io& io) const {
  if ((io.flags & PENSTOCK_REFUSE_HOLES) == 0) return 0;
  return fail_with(EOPNOTSUPP, "prepare: holes cannot be refused for GPU memory");
}

int Lane::make_transfers() {
  const std::lock_guard side(submitting_);
  if (transfers_ != nullptr) return 0;
  auto transfers = std::make_unique<DeviceTransfer[]>(entries_);
  for (uint32_t i = 0; i < entries_; ++i) {
    transfers[i].lane = this;
    transfers[i].slot = i;
    transfers[i].ended = [](route::Transfer& ended) {
      auto& self = static_cast<DeviceTransfer&>(ended);
      self.lane->transfer_ended(self);
    };
  }
  const std::lock_guard waiters(waiting_);
  ended_transfers_.resize(entries_);
  transfers_ = std::move(transfers);
  return 0;
}

void Lane::prepare_transfer(const penstock_io& io, uint32_t slot) {
  DeviceTransfer& transfer = transfers_[slot];
  Region* const region = slots_[slot].device_region;
  transfer.region = region;
  transfer.write = io.operation == PENSTOCK_WRITE;
  transfer.durable = (io.flags & PENSTOCK_DURABLE) != 0;
  transfer.file = static_cast<uint32_t>(io.file);
  transfer.offset = io.offset;
  transfer.memory = *region->device;
  transfer.memory.data += io.region_offset;
  transfer.memory.length = io.length;
  transfer.only = static_cast<engine::Route>(io.route);
  transfer.deadline = engine::kNever;
  if (io.deadline != 0 && io.deadline != PENSTOCK_FOREVER) {
    transfer.deadline = engine::Time(engine::Duration(static_cast<int64_t>(io.deadline)));
  }
}

void Lane::start_transfer(uint32_t slot) {
  DeviceTransfer& transfer = transfers_[slot];
  transfers_started_.fetch_add(1, std::memory_order_relaxed);
  // Release with the acquire of whoever waits until the region is not used any more.
  transfer.region->transfers.fetch_add(1, std::memory_order_acq_rel);
  session_.transfers()->submit(transfer);
}

// In the thread that drives the transfers.
void Lane::transfer_ended(DeviceTransfer& transfer) {
  transfer.region->transfers.fetch_sub(1, std::memory_order_acq_rel);
  const uint32_t ended = transfers_ended_.load(std::memory_order_relaxed);
  ended_transfers_[ended & (entries_ - 1)] = transfer.slot;
  transfers_ended_.store(ended + 1, std::memory_order_release);
  // As wake.h: the waiter sets its word and then looks at roused_, this side the other way round.
  roused_.store(true, std::memory_order_seq_cst);
  const std::lock_guard lock(queues_mutex_);
  if (queues_.is_asleep()) queues_.rouse();
}

uint32_t Lane::take_transfers(penstock_completion* completions, uint32_t max) {
  uint32_t count = 0;
  const uint32_t ended = transfers_ended_.load(std::memory_order_acquire);
  while (count < max && transfers_taken_ != ended) {
    const uint32_t slot = ended_transfers_[transfers_taken_++ & (entries_ - 1)];
    const DeviceTransfer& transfer = transfers_[slot];
    const int64_t result = transfer.status.ok() ? static_cast<int64_t>(transfer.transferred)
                                                : -int64_t{transfer.status.to_errno()};
    completions[count++] = {
        slots_[slot].entry.user_data, result, static_cast<uint8_t>(transfer.route), {}};
    give_free_slot(slot);
  }
  in_flight_.fetch_sub(count, std::memory_order_release);
  return count;
}

uint32_t Lane::ready() const {
  return queues_.ready() + transfers_ended_.load(std::memory_order_acquire) - transfers_taken_ +
         answers_made_.load(std::memory_order_acquire) - answers_taken_;
}

void Lane::help_transfers() const {
  if (transfers_started_.load(std::memory_order_relaxed) ==
      transfers_ended_.load(std::memory_order_relaxed)) {
    return;
  }
  session_.transfers()->help();
}

void Lane::end_transfers() {
  std::vector<DeviceTransfer*> running;
  {
    const std::lock_guard side(submitting_);
    for (uint32_t i = 0; i < entries_; ++i) {
      const bool submitted = slots_[i].state.load(std::memory_order_acquire) == State::submitted;
      if (submitted && slots_[i].device_region != nullptr) running.push_back(&transfers_[i]);
    }
  }
  for (DeviceTransfer* const transfer : running) session_.transfers()->cancel(*transfer);
  while (transfers_ended_.load(std::memory_order_acquire) !=
         transfers_started_.load(std::memory_order_relaxed)) {
    session_.transfers()->help();
    std::this_thread::yield();
  }
  // Whoever drives may still be on its way out of the last one's end.
  if (!running.empty()) session_.transfers()->settle();
}

}  // namespace penstock::api
