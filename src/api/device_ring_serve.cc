// What a ring's thread does with what kernels ask for.
#include "device_ring.h"
#include "device_ring_slot.h"
#include "session.h"

#include <cerrno>
#include <span>

namespace penstock::api {

using Taken = ring::KernelQueue::Taken;

bool DeviceRing::serve() {
  Batch& batch = *batch_;
  const uint32_t count = queue_.take(batch.taken);
  CacheView* const view = view_of_cache();
  if (count == 0) return false;
  requests_.fetch_add(count, std::memory_order_relaxed);
  batch.read_count = batch.transfer_count = 0;
  for (uint32_t i = 0; i < count; ++i) sort_out(batch, batch.taken[i], view);
  if (batch.read_count > 0) answer_places(batch, view);
  // Last, as this may take a while: nobody else's bytes wait for it.
  for (uint32_t i = 0; i < batch.transfer_count; ++i)
    transfer(*batch.transfers[i].taken, batch.transfers[i].file);
  return true;
}

bool DeviceRing::has_work() const {
  return queue_.has_work() || session_.cache().serial() != serial_;
}

// The newest; null where there is no cache, or not yet.
CacheView* DeviceRing::view_of_cache() {
  CacheMap& map = session_.cache();
  const uint64_t serial = map.serial();
  if (serial != serial_) {
    if (newest_ != nullptr && newest_->uses == 0) held_.erase(serial_);
    serial_ = serial;
    newest_ = nullptr;
    if (std::shared_ptr<CacheView> view = map.view()) {
      newest_ = &held_[serial];
      newest_->view = std::move(view);
    }
  }
  return newest_ != nullptr ? newest_->view.get() : nullptr;
}

// The position has been used again: nobody copies from the place of its last answer any more.
void DeviceRing::let_go(uint32_t index) {
  Held* const held = std::exchange(positions_[index].held, nullptr);
  if (held == nullptr || --held->uses > 0 || held == newest_) return;
  std::erase_if(held_, [held](const auto& one) { return &one.second == held; });
}

// 0, or the errno of a request that cannot be made. Kernels are not trusted.
int DeviceRing::check(const Taken& taken, int32_t file) const {
  const device::Descriptor& asks = taken.descriptor;
  if (asks.spare != 0 || asks.operation < device::kRead || asks.operation > device::kDurableWrite ||
      asks.length == 0 || asks.length > device::kRequestBytesMax ||
      !range_within(asks.destination, asks.length, region_.size) ||
      !range_within(asks.offset, asks.length, limits::kFileBytesMax)) {
    return EINVAL;
  }
  const bool writes = asks.operation != device::kRead;
  const uint8_t needed = writes ? wire::kOpenWrite : wire::kOpenRead;
  return (session_.access_of(file) & needed) != 0 ? 0 : EBADF;
}

void DeviceRing::sort_out(Batch& batch, const Taken& taken, CacheView* view) {
  // Its answer is still to come, so no kernel of ours asks: somebody scribbles.
  if (positions_[taken.index].busy.load(std::memory_order_acquire)) return;
  let_go(taken.index);
  if (taken.attempt > 0) again_.fetch_add(1, std::memory_order_relaxed);
  const device::Descriptor& asks = taken.descriptor;
  const int32_t file = files_[asks.file].load(std::memory_order_relaxed);
  const int error = check(taken, file);
  if (error != 0) return fail(taken, error);
  const Batch::One one{&taken, static_cast<uint32_t>(file)};
  if (asks.operation != device::kRead || asks.by_copy || taken.by_copy || view == nullptr ||
      asks.length > device::kPlaceBytesMax) {
    return batch.by_copy(one);
  }
  Batch::Read& read = batch.reads[batch.read_count++];
  static_cast<Batch::One&>(read) = one;
  read.place = CachePlace(*view, session_.inode_of(one.file), asks.offset, asks.length);
}

void DeviceRing::answer_places(Batch& batch, CacheView* view) {
  const std::span<Batch::Read> reads(batch.reads.data(), batch.read_count);
  for (Batch::Read& read : reads) read.found = read.place.find();
  uint32_t found = 0;
  for (Batch::Read& read : reads) {
    read.found = read.found && read.place.verify();
    found += read.found ? 1 : 0;
  }
  // Behind all look-ups: what was found is what the file holds only if somebody vouches for it.
  const bool vouched = found > 0 && !view->ended();
  for (const Batch::Read& read : reads) {
    if (!read.found || !vouched) {
      batch.by_copy(read);
      continue;
    }
    const auto address = reinterpret_cast<uint64_t>(read.place.data());
    const bool any = read.place.length() > 0;
    queue_.answer(*read.taken, any ? device::Answer{device::kPlace, address, read.place.length(),
                                                    read.place.remainder(), read.place.around()}
                                   : device::Answer{device::kDone, 0, 0, 0});
    // What a kernel need not wait for: only this thread lets go of the view.
    positions_[read.taken->index].held = newest_;
    ++newest_->uses;
    read.place.note_hits(&hits_);
  }
  if (vouched) places_.fetch_add(found, std::memory_order_relaxed);
  if (found < reads.size() && view->wants_more()) session_.cache().want();
}

void DeviceRing::fail(const Taken& taken, int error) {
  failed_.fetch_add(1, std::memory_order_relaxed);
  queue_.answer(taken, {device::kFailed, static_cast<uint64_t>(error), 0, 0});
}

void DeviceRing::transfer(const Taken& taken, uint32_t file) {
  const device::Descriptor& asks = taken.descriptor;
  Slot& slot = slots_[taken.index];
  slot.taken = taken;
  slot.file = file;
  slot.write = asks.operation != device::kRead;
  slot.durable = asks.operation == device::kDurableWrite;
  slot.offset = asks.offset;
  slot.memory = *region_.device;
  slot.memory.data += asks.destination;
  slot.memory.length = asks.length;
  // Kernels of ours may have no room beside the one that asks.
  slot.without_kernels = true;
  positions_[taken.index].busy.store(true, std::memory_order_relaxed);
  transfers_.fetch_add(1, std::memory_order_relaxed);
  session_.transfers()->post(slot);
}

// In the thread that drives the transfers.
void DeviceRing::transfer_ended(route::Transfer& transfer) {
  auto& slot = static_cast<Slot&>(transfer);
  DeviceRing& self = *slot.ring;
  const auto length = static_cast<uint32_t>(slot.transferred);
  const Taken taken = slot.taken;
  // The answer frees the position for whoever asks next, so that everything else comes before it.
  (slot.write ? self.writes_ : self.copies_).fetch_add(1, std::memory_order_relaxed);
  const bool writes = slot.write;
  const uint32_t remainder = ring::remainder_from(slot.crc32c, length);
  // Only end() cancels.
  const int error = slot.status == Code::cancelled ? ESHUTDOWN : slot.status.to_errno();
  self.positions_[taken.index].busy.store(false, std::memory_order_release);
  if (error != 0) {
    self.fail(taken, error);
  } else if (writes || length == 0) {
    self.queue_.answer(taken, {device::kDone, 0, length, 0});
  } else {
    self.queue_.answer(taken, {device::kLanded, 0, length, remainder});
  }
  self.transfers_.fetch_sub(1, std::memory_order_release);
}

}  // namespace penstock::api
