// The agent's side of a ring. Everything in the memory is foreign input.
#pragma once

#include "penstock/base.h"
#include "penstock/ring/geometry.h"
#include "penstock/ring/wake.h"

namespace penstock::ring {

// Owned by one thread. Positions and masks are private copies; what the application writes into
// words that are not its own is overwritten or ignored.
class AgentLane {
 public:
  AgentLane() = default;
  AgentLane(const Memory& memory, uint32_t lane, uint32_t first = 0);

  // Copies up to `max` submissions out of the queue; the copies are private, so they may be checked
  // and then used. bad_message when the application's tail is impossible: the ring is then of no
  // further use. What is taken counts as in flight until its completion has been taken by the
  // application; never more than `entries` are, so the completion queue cannot overflow, and a
  // submission beyond that stays in the queue.
  Result<uint32_t> take(Submission* entries, uint32_t max);
  // Whether take() would find something.
  bool has_work() const;

  // Writes one completion of a taken submission; the application does not see it yet.
  void post(const Completion& completion);
  bool has_unpublished() const { return posted_ != published_; }
  // Makes what was posted visible and wakes the application's thread if it sleeps and has enough.
  // Returns whether it made the system call.
  bool publish();

  uint32_t in_progress() const { return taken_ - posted_; }

 private:
  uint32_t room() const;

  LaneControl* control_ = nullptr;
  const Submission* submissions_ = nullptr;
  Completion* completions_ = nullptr;
  uint32_t entries_ = 0;
  uint32_t mask_ = 0;
  uint32_t taken_ = 0;      // submissions
  uint32_t posted_ = 0;     // completions
  uint32_t published_ = 0;  // completions
};

// The ring as a whole, for the agent.
class AgentRing {
 public:
  explicit AgentRing(const Memory& memory) : memory_(memory) {}

  // Lanes to look at. The application's word is bounded by the geometry.
  uint32_t lanes_used() const;
  // Sleep protocol (wake.h): arm(), then look at every lane's has_work() once more.
  void arm();
  void disarm();
  // Whether no application's thread has called for the agent since arm().
  bool is_armed() const;

 private:
  Memory memory_;
};

}  // namespace penstock::ring
