#include "lane_transfers.h"

#include "error.h"
#include "limits.h"
#include "session.h"

#include <cerrno>
#include <cstddef>
#include <thread>
#include <utility>

namespace penstock::api {

Lane::~Lane() = default;

int Lane::check_transfer(const penstock_io& io) const {
  if (io.operation != PENSTOCK_READ || io.flags == 0) return 0;
  return fail_with(EOPNOTSUPP, "prepare: reads into GPU memory have no flags");
}

int Lane::check_gather(const penstock_gather& gather) const {
  const auto* const region = reinterpret_cast<const Region*>(gather.region);
  if (region == nullptr || region->session != &session_) {
    return fail_with(EINVAL, "prepare: the region is not of this session");
  }
  if (!region->device) return fail_with(EOPNOTSUPP, "prepare: lists are for GPU memory");
  if (session_.access_of(gather.file) == 0)
    return fail_with(EBADF, "prepare: the file is not open");
  if (gather.pieces == nullptr || gather.count == 0 || gather.count > limits::kGatherPiecesMax) {
    return fail_with(EINVAL, "prepare: a list has 1 to 65536 pieces");
  }
  for (uint32_t i = 0; i < gather.count; ++i) {
    const penstock_piece& piece = gather.pieces[i];
    if (piece.length == 0 || piece.length > route::kListEntryBytesMax ||
        !range_within(piece.region_offset, piece.length, region->size) ||
        !range_within(piece.offset, piece.length, limits::kFileBytesMax)) {
      return fail_with(EINVAL, "prepare: a piece is empty, over 1 MiB, or leaves region or file");
    }
  }
  return 0;
}

// Before the submitting side is locked: others wait for that with the session's lock held, which
// this needs.
void Lane::take_transfers_of_session() {
  if (transfers_.load(std::memory_order_acquire) != nullptr) return;
  const Session::LaneTransfers found = session_.lane_transfers();
  const std::lock_guard side(submitting_);
  if (transfers_.load(std::memory_order_relaxed) != nullptr) return;
  transfers_number_ = found.number;
  transfers_.store(found.transfers, std::memory_order_release);
}

// With the submitting side locked, as the next.
void Lane::keep_region(Region& region) {
  if (!prepared_regions_.empty() && prepared_regions_.back().get() == &region) return;
  prepared_regions_.push_back(region.shared_from_this());
}

void Lane::make_transfers() {
  if (operations_ != nullptr) return;
  auto operations = std::make_unique<DeviceOperation[]>(entries_);
  for (uint32_t i = 0; i < entries_; ++i) {
    DeviceOperation& made = operations[i];
    made.lane = this;
    made.slot = i;
    made.single.operation = made.list.operation = &made;
    made.single.ended = [](route::Transfer& ended) {
      transfer_ended(*static_cast<DeviceOperation::Single&>(ended).operation, ended,
                     ended.transferred, ended.route);
    };
    made.list.ended = [](route::ListTransfer& ended) {
      transfer_ended(*static_cast<DeviceOperation::List&>(ended).operation, ended,
                     ended.transferred, ended.route);
    };
  }
  const std::lock_guard waiters(waiting_);
  ended_transfers_.resize(entries_);
  starting_transfers_.reserve(entries_);
  operations_ = std::move(operations);
}

namespace {

engine::Time time_of(uint64_t deadline) {
  if (deadline == 0 || deadline == PENSTOCK_FOREVER) return engine::kNever;
  return engine::Time(engine::Duration(static_cast<int64_t>(deadline)));
}

}  // namespace

void Lane::prepare_transfer(const penstock_io& io, uint32_t slot) {
  DeviceOperation& operation = operations_[slot];
  Region* const region = slots_[slot].device_region;
  operation.region = region;
  keep_region(*region);
  operation.is_list = false;
  route::Transfer& transfer = operation.single;
  transfer.write = io.operation == PENSTOCK_WRITE;
  transfer.durable = (io.flags & PENSTOCK_DURABLE) != 0;
  transfer.file = static_cast<uint32_t>(io.file);
  transfer.offset = io.offset;
  transfer.memory = *region->device;
  transfer.memory.data += io.region_offset;
  transfer.memory.length = io.length;
  transfer.only = static_cast<engine::Route>(io.route);
  transfer.deadline = time_of(io.deadline);
  transfers_.load(std::memory_order_relaxed)->learn_costs(region->device->device);
}

int Lane::prepare_gather(const penstock_gather& gather) {
  static_assert(sizeof(penstock_piece) == sizeof(route::ListEntry) &&
                offsetof(penstock_piece, region_offset) == offsetof(route::ListEntry, target) &&
                offsetof(penstock_piece, length) == offsetof(route::ListEntry, length) &&
                offsetof(penstock_piece, done) == offsetof(route::ListEntry, done));
  int error = check_gather(gather);
  if (error != 0) return error;
  auto* const region = reinterpret_cast<Region*>(gather.region);
  ring::Submission entry{};
  entry.operation = PENSTOCK_READ;
  entry.file = static_cast<uint32_t>(gather.file);
  entry.user_data = gather.user_data;
  take_transfers_of_session();
  const std::lock_guard side(submitting_);
  make_transfers();
  uint32_t slot = 0;
  error = take_place(entry, region, &slot);
  if (error != 0) return error;
  DeviceOperation& operation = operations_[slot];
  operation.region = region;
  keep_region(*region);
  operation.is_list = true;
  operation.list.file = static_cast<uint32_t>(gather.file);
  operation.list.memory = *region->device;
  operation.list.entries = {reinterpret_cast<route::ListEntry*>(gather.pieces), gather.count};
  operation.list.deadline = time_of(gather.deadline);
  return 0;
}

// False when the region was released meanwhile: then the operation has ended.
bool Lane::start_transfer(uint32_t slot) {
  DeviceOperation& operation = operations_[slot];
  Region& region = *operation.region;
  std::atomic<uint32_t>& count = region.transfers[transfers_number_].value;
  // See Region::transfers for the order.
  count.fetch_add(1, std::memory_order_seq_cst);
  if (region.released.load(std::memory_order_seq_cst)) {
    count.fetch_sub(1, std::memory_order_release);
    operation.region = nullptr;
    put_answer({slot, engine::Route::none, -EINVAL});
    return false;
  }
  transfers_started_.fetch_add(1, std::memory_order_relaxed);
  if (operation.is_list) {
    transfers_.load(std::memory_order_relaxed)->submit(operation.list);
  } else {
    starting_transfers_.push_back(&operation.single);
  }
  return true;
}

void Lane::submit_transfers() {
  transfers_.load(std::memory_order_relaxed)->submit(starting_transfers_);
  starting_transfers_.clear();
}

void Lane::cancel_transfer(DeviceOperation& operation) {
  if (operation.is_list) {
    transfers_.load(std::memory_order_acquire)->cancel(operation.list);
  } else {
    transfers_.load(std::memory_order_acquire)->cancel(operation.single);
  }
}

// In the thread that drives the transfers.
void Lane::transfer_ended(DeviceOperation& operation, const engine::Op& op, uint64_t transferred,
                          engine::Route route) {
  Lane& lane = *operation.lane;
  operation.result =
      op.status.ok() ? static_cast<int64_t>(transferred) : -int64_t{op.status.to_errno()};
  operation.route = route;
  Region* const region = std::exchange(operation.region, nullptr);
  region->transfers[lane.transfers_number_].value.fetch_sub(1, std::memory_order_release);
  const uint32_t ended = lane.transfers_ended_.load(std::memory_order_relaxed);
  lane.ended_transfers_[ended & (lane.entries_ - 1)] = operation.slot;
  lane.transfers_ended_.store(ended + 1, std::memory_order_release);
  // As wake.h: the waiter sets its word and then looks at roused_, this side the other way round.
  lane.roused_.store(true, std::memory_order_seq_cst);
  const std::lock_guard lock(lane.queues_mutex_);
  if (lane.queues_.is_asleep()) lane.queues_.rouse();
}

uint32_t Lane::take_transfers(penstock_completion* completions, uint32_t max) {
  uint32_t count = 0;
  const uint32_t ended = transfers_ended_.load(std::memory_order_acquire);
  while (count < max && transfers_taken_ != ended) {
    const uint32_t slot = ended_transfers_[transfers_taken_++ & (entries_ - 1)];
    const DeviceOperation& operation = operations_[slot];
    completions[count++] = {
        slots_[slot].entry.user_data, operation.result, static_cast<uint8_t>(operation.route), {}};
    give_free_slot(slot);
  }
  if (count > 0) in_flight_.fetch_sub(count, std::memory_order_release);
  return count;
}

uint32_t Lane::ready() const {
  return queues_.ready() + transfers_ended_.load(std::memory_order_acquire) - transfers_taken_ +
         answers_made_.load(std::memory_order_acquire) - answers_taken_;
}

// Whether any have begun and not ended. Acquire: then ready() knows of all ends.
bool Lane::has_transfers() const {
  return transfers_started_.load(std::memory_order_relaxed) !=
         transfers_ended_.load(std::memory_order_acquire);
}

void Lane::help_transfers() const {
  if (has_transfers()) transfers_.load(std::memory_order_acquire)->help();
}

void Lane::end_transfers() {
  std::vector<DeviceOperation*> running;
  {
    const std::lock_guard side(submitting_);
    for (uint32_t i = 0; i < entries_; ++i) {
      const bool submitted = slots_[i].state.load(std::memory_order_acquire) == State::submitted;
      if (submitted && slots_[i].device_region != nullptr) running.push_back(&operations_[i]);
    }
  }
  for (DeviceOperation* const operation : running) cancel_transfer(*operation);
  while (has_transfers()) {
    transfers_.load(std::memory_order_acquire)->help();
    std::this_thread::yield();
  }
  // Whoever drives may still be on its way out of the last one's end.
  if (!running.empty()) transfers_.load(std::memory_order_acquire)->settle();
}

}  // namespace penstock::api
