// The slots of a lane's operations, and queues of them between its two sides.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "penstock/base.h"
#include "penstock/connection.h"
#include "penstock/ring.h"

namespace penstock::lanes {

// From one thread at a time to one thread at a time. It has room for an item of each slot, so that
// it is never full.
template <class Item>
class SlotQueue {
 public:
  SlotQueue() = default;
  explicit SlotQueue(uint32_t slots) { resize(slots); }
  // Before its first use.
  void resize(uint32_t slots) {
    ASSERT(std::has_single_bit(slots));
    items_.resize(slots);
    mask_ = slots - 1;
  }

  void push(const Item& item) {
    const uint32_t made = made_.load(std::memory_order_relaxed);
    items_[made & mask_] = item;
    made_.store(made + 1, std::memory_order_release);
  }
  // How many have ever been pushed. Acquire: they can be taken.
  uint32_t made() const { return made_.load(std::memory_order_acquire); }

  // The taking thread's.
  uint32_t ready() const { return made() - taken_; }
  // When there is one that is ready.
  const Item& take() {
    DASSERT(ready() > 0);
    return items_[taken_++ & mask_];
  }

 private:
  std::vector<Item> items_;
  uint32_t mask_ = 0;
  alignas(64) std::atomic<uint32_t> made_{0};  // release pairs with the acquire in made()
  uint32_t taken_ = 0;                         // the taking thread's
};

// One operation of the application, until its completion was taken.
struct LaneSlot {
  // `answered`: by the node cache, in this process, or refused.
  enum class State : uint8_t { free, prepared, submitted, answered };

  ring::Submission entry{};
  connection::Region* device_region =
      nullptr;                   // of GPU memory: then the agent never sees the entry
  uint64_t generation = 0;       // of the region in host memory; 0: there is none
  std::byte* read_to = nullptr;  // reads into host memory
  // Written by the submitting side (prepared, submitted, answered) and the waiting side (free);
  // read by cancel. Release and acquire order the entry.
  std::atomic<State> state{State::free};
};

class LaneSlots {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit LaneSlots(uint32_t count) : slots_(count), free_(count) {
    for (uint32_t i = 0; i < count; ++i) free_.push(i);
  }

  uint32_t count() const { return static_cast<uint32_t>(slots_.size()); }
  LaneSlot& operator[](uint32_t slot) { return slots_[slot]; }
  const LaneSlot& operator[](uint32_t slot) const { return slots_[slot]; }

  // The submitting side's; kNone when all are in use.
  uint32_t take() {
    if (free_.ready() == 0) return kNone;
    const uint32_t slot = free_.take();
    ASSERT(slots_[slot].state.load(std::memory_order_relaxed) == LaneSlot::State::free);
    return slot;
  }
  // The waiting side's.
  void give_back(uint32_t slot) {
    ASSERT(slot < slots_.size());
    ASSERT(slots_[slot].state.load(std::memory_order_relaxed) != LaneSlot::State::free);
    slots_[slot].state.store(LaneSlot::State::free, std::memory_order_relaxed);
    free_.push(slot);
  }
  // Operations on GPU memory end by themselves, whatever happens to the agent.
  bool is_with_agent(uint32_t slot) const {
    return slots_[slot].state.load(std::memory_order_relaxed) == LaneSlot::State::submitted &&
           slots_[slot].device_region == nullptr;
  }

 private:
  std::vector<LaneSlot> slots_;
  SlotQueue<uint32_t> free_;  // from the waiting side to the submitting side
};

}  // namespace penstock::lanes
