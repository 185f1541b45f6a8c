// The native interface as USRBIO uses it, in this process and in the test's hands: nothing
// completes before the test says so.
#pragma once

#include "penstock.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

struct penstock_region {
  penstock_session* session = nullptr;
  void* base = nullptr;
  size_t size = 0;
};

struct penstock_lane {
  std::mutex mutex;
  std::condition_variable arrived;
  uint32_t capacity = 0;
  uint32_t in_flight = 0;  // prepared, submitted or completed, but not waited for
  std::deque<penstock_io> prepared;
  std::deque<penstock_io> submitted;
  std::deque<penstock_completion> completions;
  std::vector<uint32_t> batches;  // the size of each submit that was not empty
  int refuse_prepare_after = -1;  // so many more are taken, then -EBADF
  bool dead = false;
  std::atomic<bool> has_waiter{false};  // somebody is inside penstock_lane_wait()

  // Ends the oldest submitted operation with this result.
  void complete_oldest(int64_t result);
  // The submitted operation number `index` from the oldest.
  void complete(size_t index, int64_t result);
  // Ends everything submitted in full.
  void complete_all();
  // As an agent's death: everything in flight ends with -ECONNRESET, nothing goes any more.
  void kill();
  std::vector<uint32_t> seen_batches();

 private:
  void finish(size_t index, int64_t result);  // with the mutex held
};

struct penstock_ring {
  penstock_lane lane;
};

struct penstock_session {
  ~penstock_session();

  std::vector<penstock_region*> registered;
  uint32_t released = 0;
  int fail_register = 0;  // an errno, negative
};

namespace fake {
// Native rings that were made and not destroyed.
int rings_alive();
// The lane of the ring that was made last.
penstock_lane& last_lane();
}  // namespace fake
