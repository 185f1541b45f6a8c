// A lane's end of its ring's memory, for one connection after the other, and the sleep of its
// waiter.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <sys/eventfd.h>

#include "penstock/base.h"
#include "penstock/connection.h"
#include "penstock/ring.h"

namespace penstock::lanes {

// A ring's memory for one connection, with the eventfd that wakes its agent.
struct RingMemory {
  connection::SharedMemory shared;
  ring::Memory layout;
  UniqueFd wake;
};

// The memory of a ring's newest connection.
struct RingUse {
  std::shared_ptr<RingMemory> memory;
  uint64_t epoch = 0;
};

// The submitting side pushes and publishes, the waiting side takes and sleeps, each with its side
// of the lane locked; any thread wakes.
class LaneQueues {
 public:
  LaneQueues(RingUse use, uint32_t index);

  // Of the connection that the queues belong to. Either side's.
  uint64_t epoch() const { return epoch_; }

  // The submitting side's.
  void push(const ring::Submission& entry) { queues_.push(entry); }
  void publish(uint32_t count) {
    if (queues_.publish(count)) ::eventfd_write(memory_->wake.get(), 1);
  }
  // Operations ended as they were submitted: the waiter may be another thread, and asleep.
  void wake_from_submitter() {
    roused_.store(true, std::memory_order_seq_cst);
    if (queues_.is_asleep()) queues_.rouse();
  }

  // The waiting side's.
  uint32_t ready() const { return queues_.ready(); }
  uint32_t take(ring::Completion* completions, uint32_t max) {
    return queues_.take(completions, max);
  }
  // Before the waiter looks at anything: whatever wakes it later ends its next sleep. True if
  // something has by now. An exchange, so that it acquires what was written before that.
  bool begin_to_look() { return roused_.exchange(false, std::memory_order_seq_cst); }
  // For a sleep without the side's lock: keeps the memory mapped.
  class Sleeper {
   public:
    // Until so many completions are there, the deadline, or something wakes the waiter. May return
    // early for no reason.
    void sleep(uint32_t completions, uint64_t deadline) {
      (void)queues_.sleep(completions, deadline, roused_);
    }

   private:
    friend class LaneQueues;
    Sleeper(const ring::AppLane& queues, std::shared_ptr<RingMemory> memory,
            const std::atomic<bool>& roused)
        : queues_(queues), memory_(std::move(memory)), roused_(roused) {}
    ring::AppLane queues_;
    std::shared_ptr<RingMemory> memory_;
    const std::atomic<bool>& roused_;
  };
  Sleeper sleeper() const { return {queues_, memory_, roused_}; }

  // Any thread: there is something to look at. An operation has ended, and the waiter may be
  // asleep.
  void wake();
  // As wake(), when the session's epoch has changed: the waiter looks at that, too.
  void rouse();

  // With both sides locked. No agent serves the lane any more.
  void end(uint64_t epoch) { epoch_ = epoch; }
  // Replaces the queues by those of another connection. Returns the old ones, on which a waiter may
  // still sleep: it is to be roused when the new ones are complete.
  Sleeper replace(RingUse use, uint32_t index);
  void rouse(Sleeper& old);

 private:
  // Replaced with both sides locked and this mutex held; rouse() and wake() hold only the mutex,
  // each side reads with its own lock.
  std::mutex mutex_;
  std::shared_ptr<RingMemory> memory_;
  ring::AppLane queues_;
  uint64_t epoch_ = 0;
  // Set to end a sleep; cleared by the waiter before it looks at anything.
  std::atomic<bool> roused_{false};
};

}  // namespace penstock::lanes
