// The lock of one side of a lane.
#pragma once

#include <atomic>

#include "penstock/ring.h"

namespace penstock::lanes {

// Held for the length of a step by the one thread of a side; a waiter never sleeps with it. Not
// contended unless the lane moves to another connection at that moment.
class SideLock {
 public:
  void lock() {
    // Acquire pairs with the release of the side's last step.
    while (held_.exchange(true, std::memory_order_acquire)) ring::pause();
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace penstock::lanes
