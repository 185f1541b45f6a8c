// The operations of one ring: a fixed array, and the indices that are free.
//
// Two threads: the submitting side takes slots, the waiting side gives them back.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>

#include "penstock/base.h"

namespace penstock::usrbio {

// One operation, from prepare to its completion. It is written by the submitting side before its
// parts are handed to the native ring, and by the waiting side while it collects them; the native
// ring orders the two.
struct Slot {
  const void* userdata = nullptr;
  uint64_t length = 0;
  // What the parts that came back say so far: the first byte that is missing (length: none), and an
  // errno, negative.
  uint64_t end = 0;
  int64_t error = 0;
  uint32_t parts_left = 0;  // 0: the slot is free
};

// Free slot indices, first in, first out: a queue with one producer and one consumer. It can hold
// every index, so giving back never fails.
class FreeSlots {
 public:
  explicit FreeSlots(uint32_t count)
      : mask_(std::bit_ceil(count) - 1), queue_(std::make_unique<uint32_t[]>(mask_ + 1)) {
    for (uint32_t i = 0; i < count; ++i) queue_[i] = i;
    given_.store(count, std::memory_order_relaxed);
  }

  // Submitting side.
  std::optional<uint32_t> take() {
    if (taken_ == given_seen_) {
      // Pairs with the release in give(): the index and the slot behind it are ours now.
      given_seen_ = given_.load(std::memory_order_acquire);
      if (taken_ == given_seen_) return std::nullopt;
    }
    return queue_[taken_++ & mask_];
  }
  // Submitting side: the last one taken was not used after all.
  void untake() { --taken_; }

  // Waiting side.
  void give(uint32_t index) {
    const uint32_t given = given_.load(std::memory_order_relaxed);
    queue_[given & mask_] = index;
    given_.store(given + 1, std::memory_order_release);
  }

 private:
  const uint32_t mask_;
  const std::unique_ptr<uint32_t[]> queue_;
  uint32_t taken_ = 0;
  uint32_t given_seen_ = 0;
  alignas(64) std::atomic<uint32_t> given_{0};
};

}  // namespace penstock::usrbio
