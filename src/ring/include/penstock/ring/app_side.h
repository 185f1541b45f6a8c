// The application's side of one lane.
#pragma once

#include "penstock/base.h"
#include "penstock/ring/geometry.h"
#include "penstock/ring/wake.h"

namespace penstock::ring {

// Two roles, each for one thread at a time: the submitter (push, publish) and the reaper (take,
// ready, sleep). The owner bounds the operations in flight, from push to take, by
// geometry().entries: then neither queue can overflow. Trusts the agent for liveness only: whatever
// the agent writes, no access leaves the ring.
class AppLane {
 public:
  AppLane() = default;
  AppLane(const Memory& memory, uint32_t lane, uint32_t first = 0);

  // Tells the agent that lanes up to this one may have work. Before the first publish().
  void announce();

  // Copies `entry` into the queue; the agent does not see it yet.
  void push(const Submission& entry);
  uint32_t unpublished() const { return pushed_ - published_; }
  // Makes the oldest `count` of what was pushed visible, or all if there are fewer. True: the agent
  // sleeps and the caller must write the ring's eventfd (only one caller per sleep is told so).
  bool publish(uint32_t count = UINT32_MAX);

  // Completions that can be taken now.
  uint32_t ready() const;
  // Takes up to `max` completions in the order in which the agent posted them.
  uint32_t take(Completion* completions, uint32_t max);

  // Sleeps until `count` completions (1 to entries) are ready, rouse() or `deadline`. May return
  // early for no reason. `stop` is looked at after the word is set, so a thread that sets it and
  // then calls rouse() is never missed. False when the deadline has passed.
  bool sleep(uint32_t count, uint64_t deadline, const std::atomic<bool>& stop);
  // Ends a sleep. Any thread.
  void rouse();
  // Whether a thread sleeps or is about to, unless it looks at `stop` of sleep() after this. Any
  // thread.
  bool is_asleep() const;

 private:
  Header* header_ = nullptr;
  LaneControl* control_ = nullptr;
  Submission* submissions_ = nullptr;
  Completion* completions_ = nullptr;
  uint32_t lane_ = 0;
  uint32_t entries_ = 0;
  uint32_t mask_ = 0;
  // The submitter's.
  alignas(64) uint32_t pushed_ = 0;
  uint32_t published_ = 0;
  // The reaper's.
  alignas(64) uint32_t taken_ = 0;
};

}  // namespace penstock::ring
