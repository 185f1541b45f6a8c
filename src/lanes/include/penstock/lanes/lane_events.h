// A descriptor for event loops: readable while a lane has completions.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "penstock/base.h"
#include "penstock/connection.h"

namespace penstock::lanes {

class Lane;

// While the application does not wait, a thread of this object sleeps on the lane's queues instead,
// moves the lane to another connection if there is one, and makes the descriptor readable when
// completions have come. A lane without one of these pays nothing for it.
class LaneEvents {
 public:
  // The lane outlives it. ready() or unready() follows.
  static Outcome<std::unique_ptr<LaneEvents>> start(Lane& lane);
  // Closes the descriptor.
  ~LaneEvents();

  int descriptor() const { return event_.get(); }

  // The lane has completions: the descriptor is readable from now on.
  void ready();
  // It had none just now: the descriptor is not readable until the thread finds some. To be
  // followed by another look, as there may be some by now.
  void unready();
  // For a waiter. Under the lock under which it has looked: from now on whatever wakes the thread
  // makes the descriptor readable, as the waiter has to look then, too.
  void begin_sleep();
  // Without that lock: until the descriptor is readable, or the deadline.
  void sleep(uint64_t deadline);

 private:
  explicit LaneEvents(Lane& lane) : lane_(lane) {}
  void run();
  void make_readable();
  void wait_for_descriptor(uint64_t deadline) const;

  Lane& lane_;
  connection::ParentsFd event_;
  std::atomic<bool> stop_{false};  // set with the mutex held

  std::mutex mutex_;
  std::condition_variable changed_;  // watching_ or stop_
  bool watching_ = false;            // the thread is to look for completions
  bool readable_ = false;
  bool sleeping_ = false;  // a waiter
  std::thread thread_;
};

}  // namespace penstock::lanes
