#include "transfer.h"

#include <algorithm>
#include <cerrno>

namespace penstock::apps {

int TransferPool::make() {
  const std::lock_guard lock(mutex_);
  if (ring_ != nullptr) return 0;
  auto region = console::create_region(session_, workers_ * kSlots * kSlotBytes);
  if (!region) return -region.error().status.to_errno();
  auto ring = console::create_ring(session_, kSlots, workers_);
  if (!ring) return -ring.error().status.to_errno();
  region_ = std::move(*region);
  ring_ = std::move(*ring);
  return 0;
}

int Transfer::prepare() {
  if (ring_ != nullptr) return 0;
  const int made = pool_.make();
  if (made < 0) return made;
  ring_ = pool_.ring();
  region_ = pool_.region();
  return 0;
}

std::span<std::byte> Transfer::memory(size_t slot, uint64_t length) const {
  auto* start = static_cast<std::byte*>(penstock_region_base(region_));
  return {start + base_ + slot * TransferPool::kSlotBytes, static_cast<size_t>(length)};
}

int Transfer::submit(uint8_t operation, penstock_file file, size_t slot) {
  penstock_io io{};
  io.operation = operation;
  io.file = file;
  io.offset = slots_[slot].offset;
  io.length = slots_[slot].length;
  io.region = region_;
  io.region_offset = base_ + slot * TransferPool::kSlotBytes;
  io.user_data = slot;
  const int prepared = penstock_prepare(ring_, &io);
  if (prepared < 0) return prepared;
  const int submitted = penstock_submit(ring_);
  if (submitted < 0) return submitted;
  slots_[slot].busy = true;
  ++in_flight_;
  return 0;
}

int Transfer::reap(const Check* check) {
  penstock_completion done[TransferPool::kSlots];
  const int count = penstock_wait(ring_, done, TransferPool::kSlots, 1, PENSTOCK_FOREVER);
  if (count < 0) {
    in_flight_ = 0;
    return count;
  }
  int result = 0;
  for (int i = 0; i < count; ++i) {
    Slot& slot = slots_[done[i].user_data];
    slot.busy = false;
    --in_flight_;
    if (result != 0) continue;
    if (done[i].result < 0) {
      result = static_cast<int>(done[i].result);
    } else if (static_cast<uint64_t>(done[i].result) != slot.length) {
      result = -ENODATA;
    } else if (check != nullptr) {
      result = -(*check)(slot.offset, memory(done[i].user_data, slot.length));
    }
  }
  return result;
}

int Transfer::drain(int result) {
  while (in_flight_ > 0) {
    const int one = reap(nullptr);
    if (result == 0) result = one;
  }
  for (Slot& slot : slots_) slot.busy = false;
  return result;
}

int Transfer::write(penstock_file file, uint64_t begin, uint64_t end, const Fill& fill) {
  const int ready = prepare();
  if (ready < 0) return ready;
  uint64_t offset = begin;
  while (offset < end) {
    size_t slot = 0;
    while (slot < TransferPool::kSlots && slots_[slot].busy) ++slot;
    if (slot == TransferPool::kSlots) {
      const int result = reap(nullptr);
      if (result < 0) return drain(result);
      continue;
    }
    const uint64_t length = std::min<uint64_t>(TransferPool::kSlotBytes, end - offset);
    slots_[slot] = {offset, length, false};
    const int filled = fill(offset, memory(slot, length));
    if (filled != 0) return drain(-filled);
    const int result = submit(PENSTOCK_WRITE, file, slot);
    if (result < 0) return drain(result);
    offset += length;
  }
  return drain(0);
}

int Transfer::read(penstock_file file, uint64_t length, const Check& check) {
  const int ready = prepare();
  if (ready < 0) return ready;
  uint64_t offset = 0;
  while (offset < length || in_flight_ > 0) {
    size_t slot = 0;
    while (slot < TransferPool::kSlots && slots_[slot].busy) ++slot;
    if (slot == TransferPool::kSlots || offset == length) {
      const int result = reap(&check);
      if (result < 0) return drain(result);
      continue;
    }
    slots_[slot] = {offset, std::min<uint64_t>(TransferPool::kSlotBytes, length - offset), false};
    const int result = submit(PENSTOCK_READ, file, slot);
    if (result < 0) return drain(result);
    offset += slots_[slot].length;
  }
  return 0;
}

}  // namespace penstock::apps
