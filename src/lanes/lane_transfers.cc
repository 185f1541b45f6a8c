#include "penstock/lanes/lane_transfers.h"

#include <thread>
#include <utility>

#include "penstock/lanes/transfer_pool.h"

namespace penstock::lanes {

namespace {

engine::Time time_of(uint64_t deadline) {
  if (deadline == 0 || deadline == ring::kForever) return engine::kNever;
  return engine::Time(engine::Duration(static_cast<int64_t>(deadline)));
}

}  // namespace

void LaneTransfers::find(TransferPool& pool, SideLock& submitting) {
  if (transfers_.load(std::memory_order_acquire) != nullptr) return;
  const TransferPool::ForLane found = pool.for_lane();
  const std::lock_guard side(submitting);
  if (transfers_.load(std::memory_order_relaxed) != nullptr) return;
  number_ = found.number;
  transfers_.store(found.transfers, std::memory_order_release);
}

void LaneTransfers::make_room(SideLock& waiting) {
  if (operations_ != nullptr) return;
  auto operations = std::make_unique<DeviceOperation[]>(slots_.count());
  for (uint32_t i = 0; i < slots_.count(); ++i) {
    DeviceOperation& made = operations[i];
    made.of = this;
    made.slot = i;
    made.single.operation = made.list.operation = &made;
    made.single.ended = [](route::Transfer& transfer) {
      ended(*static_cast<DeviceOperation::Single&>(transfer).operation, transfer,
            transfer.transferred, transfer.route);
    };
    made.list.ended = [](route::ListTransfer& transfer) {
      ended(*static_cast<DeviceOperation::List&>(transfer).operation, transfer,
            transfer.transferred, transfer.route);
    };
  }
  const std::lock_guard waiters(waiting);
  ASSERT(!any_in_progress());
  ended_.resize(slots_.count());
  starting_.reserve(slots_.count());
  operations_ = std::move(operations);
}

void LaneTransfers::keep(connection::Region& region) {
  if (!prepared_regions_.empty() && prepared_regions_.back().get() == &region) return;
  prepared_regions_.push_back(region.shared_from_this());
}

void LaneTransfers::prepare(const Io& io, uint32_t slot) {
  DeviceOperation& operation = operations_[slot];
  connection::Region* const region = io.region;
  ASSERT(operation.region == nullptr && region->device.has_value());
  ASSERT(transfers_.load(std::memory_order_relaxed) != nullptr);
  operation.region = region;
  keep(*region);
  operation.is_list = false;
  route::Transfer& transfer = operation.single;
  transfer.write = io.operation == ring::kOperationWrite;
  transfer.durable = (io.flags & ring::kFlagDurable) != 0;
  transfer.file = static_cast<uint32_t>(io.file);
  transfer.offset = io.offset;
  transfer.memory = *region->device;
  transfer.memory.data += io.region_offset;
  transfer.memory.length = io.length;
  transfer.only = static_cast<engine::Route>(io.route);
  transfer.deadline = time_of(io.deadline);
  transfers_.load(std::memory_order_relaxed)->learn_costs(region->device->device);
}

void LaneTransfers::prepare(const Gather& gather, uint32_t slot) {
  DeviceOperation& operation = operations_[slot];
  ASSERT(operation.region == nullptr && gather.region->device.has_value());
  ASSERT(transfers_.load(std::memory_order_relaxed) != nullptr);
  operation.region = gather.region;
  keep(*gather.region);
  operation.is_list = true;
  operation.list.file = static_cast<uint32_t>(gather.file);
  operation.list.memory = *gather.region->device;
  operation.list.entries = {gather.pieces, gather.count};
  operation.list.deadline = time_of(gather.deadline);
}

bool LaneTransfers::start(uint32_t slot) {
  DeviceOperation& operation = operations_[slot];
  ASSERT(operation.region != nullptr && number_ < operation.region->transfers.size());
  connection::Region& region = *operation.region;
  std::atomic<uint32_t>& count = region.transfers[number_].value;
  // See Region::transfers for the order.
  count.fetch_add(1, std::memory_order_seq_cst);
  if (region.released.load(std::memory_order_seq_cst)) {
    count.fetch_sub(1, std::memory_order_release);
    operation.region = nullptr;
    return false;
  }
  started_.fetch_add(1, std::memory_order_relaxed);
  if (operation.is_list) {
    transfers_.load(std::memory_order_relaxed)->submit(operation.list);
  } else {
    starting_.push_back(&operation.single);
  }
  return true;
}

void LaneTransfers::submit() {
  if (starting_.empty()) return;
  transfers_.load(std::memory_order_relaxed)->submit(starting_);
  starting_.clear();
}

void LaneTransfers::cancel(DeviceOperation& operation) {
  if (operation.is_list) {
    transfers_.load(std::memory_order_acquire)->cancel(operation.list);
  } else {
    transfers_.load(std::memory_order_acquire)->cancel(operation.single);
  }
}

// In the thread that drives the transfers.
void LaneTransfers::ended(DeviceOperation& operation, const engine::Op& op, uint64_t transferred,
                          engine::Route route) {
  LaneTransfers& self = *operation.of;
  operation.result =
      op.status.ok() ? static_cast<int64_t>(transferred) : -int64_t{op.status.to_errno()};
  operation.route = route;
  connection::Region* const region = std::exchange(operation.region, nullptr);
  ASSERT(region != nullptr);
  const uint32_t before =
      region->transfers[self.number_].value.fetch_sub(1, std::memory_order_release);
  ASSERT(before > 0);
  self.ended_.push(operation.slot);
  self.queues_.wake();
}

void LaneTransfers::drain() {
  route::Transfers* const transfers = transfers_.load(std::memory_order_acquire);
  if (transfers == nullptr) return;
  while (any_in_progress()) {
    transfers->help();
    std::this_thread::yield();
  }
  // The thread that drives may still be on its way out of the last one's end.
  transfers->quiesce();
}

}  // namespace penstock::lanes
