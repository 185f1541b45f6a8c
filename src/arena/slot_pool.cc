#include "slot_pool.h"

#include <algorithm>

namespace penstock::arena {

void SlotPool::add(uint32_t count) {
  if (free_ == 0) free_hint_ = size();
  slots_.resize(slots_.size() + count);
  free_ += count;
}

uint32_t SlotPool::claim(uint32_t slot) {
  ASSERT(slots_[slot].state != State::filling);
  if (slots_[slot].state == State::free) {
    ASSERT(free_ > 0);
    --free_;
  }
  slots_[slot] = {State::filling, 0};
  return slot;
}

void SlotPool::fill(uint32_t slot) {
  ASSERT(slots_[slot].state == State::filling);
  slots_[slot].state = State::used;
}

void SlotPool::give_back(uint32_t slot) {
  ASSERT(slots_[slot].state != State::free);
  slots_[slot] = {};
  if (free_++ == 0) free_hint_ = slot;
  ASSERT(free_ <= size());
}

void SlotPool::touch(uint32_t slot) {
  if (slot >= size() || slots_[slot].state != State::used) return;
  slots_[slot].frequency = std::min<uint8_t>(slots_[slot].frequency + 1, limits::kFrequencyMax);
}

void SlotPool::pass(Extent extent) {
  for (Run& run : runs_) {
    if (run.count > 0 && run.next == extent) ++run.next.number;
  }
}

uint32_t SlotPool::take(Extent extent, uint32_t following, bool may_evict) {
  if (slots_.empty()) return kNoSlot;
  const uint32_t kept = take_from_run(extent, may_evict);
  if (kept != kNoSlot) return claim(kept);
  const bool fresh = free_ > 0;
  if (!fresh && !may_evict) return kNoSlot;
  const uint32_t first = fresh ? next_free() : sweep();
  if (first == kNoSlot) return kNoSlot;
  claim(first);
  // A quarter of a small pool at most, lest one stream keeps all of it.
  const uint32_t most = std::min(limits::kRunSlotsMax, size() / 4);
  uint32_t end = first + 1;
  while (end < size() && end - first < most && end - first <= following && is_cold(end, !fresh)) {
    ++end;
  }
  (fresh ? free_hint_ : hand_) = end == size() ? 0 : end;
  if (end - first > 1) {
    runs_[oldest_run_] = {{extent.inode, extent.number + 1}, first + 1, end - first - 1};
    oldest_run_ = (oldest_run_ + 1) % limits::kRunsMax;
  }
  return first;
}

uint32_t SlotPool::take_from_run(Extent extent, bool may_evict) {
  for (Run& run : runs_) {
    if (run.count == 0 || run.next != extent) continue;
    if (!is_cold(run.slot, may_evict)) {
      // Another fill may have taken it since, or a reader hit it. A fill that was only not to evict
      // asks again.
      if (!is_cold(run.slot, true)) run.count = 0;
      return kNoSlot;
    }
    --run.count;
    ++run.next.number;
    return run.slot++;
  }
  return kNoSlot;
}

uint32_t SlotPool::next_free() {
  ASSERT(free_ > 0);
  uint32_t slot = free_hint_ < size() ? free_hint_ : 0;
  while (slots_[slot].state != State::free) slot = slot + 1 == size() ? 0 : slot + 1;
  return slot;
}

uint32_t SlotPool::sweep() {
  uint32_t best = kNoSlot;
  const uint32_t steps = std::min(size() * (limits::kFrequencyMax + 1u), limits::kSweepMax);
  for (uint32_t i = 0; i < steps; ++i) {
    const uint32_t slot = hand_;
    hand_ = hand_ + 1 == size() ? 0 : hand_ + 1;
    Slot& s = slots_[slot];
    if (s.state == State::filling) continue;
    if (s.state == State::free || s.frequency == 0) return slot;
    --s.frequency;
    if (best == kNoSlot || s.frequency < slots_[best].frequency) best = slot;
  }
  return best;
}

}  // namespace penstock::arena
