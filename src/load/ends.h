// Ends: what has ended, from the threads that drive transfers to the one that waits for it.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "penstock/engine.h"

namespace penstock::load {

// Held by both sides: the thread that puts the last end is still in put() when the waiting side may
// already be gone.
template <class End>
class Ends {
 public:
  explicit Ends(const engine::Clock& clock) : parker_(clock) {}

  // Any thread. The caller keeps the object for as long as the call takes.
  void put(End end) {
    {
      const std::lock_guard lock(mutex_);
      ends_.push_back(end);
    }
    parker_.unpark();
  }
  // What has ended; waits until the deadline when nothing has, or for no reason less. One thread.
  std::vector<End> wait(engine::Time deadline) {
    parker_.park(deadline);
    const std::lock_guard lock(mutex_);
    return std::exchange(ends_, {});
  }

 private:
  engine::FutexParker parker_;
  std::mutex mutex_;
  std::vector<End> ends_;
};

}  // namespace penstock::load
