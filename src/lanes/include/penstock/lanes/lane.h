// One lane of a ring, as the application uses it.
//
// Two sides: at most one thread at a time submits, and at most one waits; they may be the same. The
// lane keeps a private copy of every operation in flight, so that it can be submitted again to the
// agent's successor, and knows the connection (epoch) that its queues belong to. The side that
// first notices that the session's epoch is another moves the lane: it takes what the old agent
// completed, and submits the rest again.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/base.h"
#include "penstock/cache_view.h"
#include "penstock/engine.h"
#include "penstock/lanes/lane_events.h"
#include "penstock/lanes/lane_queues.h"
#include "penstock/lanes/lane_slots.h"
#include "penstock/lanes/lane_transfers.h"
#include "penstock/lanes/operation.h"
#include "penstock/lanes/side_lock.h"
#include "penstock/ring.h"

namespace penstock::lanes {

class Ring;
class Session;

class Lane {
 public:
  Lane(Ring& ring, uint32_t index);

  Ring& ring() { return ring_; }
  uint32_t index() const { return index_; }

  // The submitting side's. 0 or a negative errno.
  int prepare(const Io& io, const ChecksumPlace& place = {});
  int prepare(const Gather& gather);
  // Makes the oldest `count` of what was prepared visible, or all if there are fewer.
  int submit(uint32_t count);
  // Asks for an early end of the operations in flight with this user data; returns how many were
  // asked.
  Outcome<int> cancel(uint64_t user_data);

  // The waiting side's. `min` is cut to what is in flight if `only_own`: then no other thread
  // submits.
  int wait(Completion* completions, uint32_t max, uint32_t min, uint64_t deadline, bool only_own);
  // A descriptor that is readable from when there are completions until wait() leaves none; the
  // same at each call, until the lane is given back. While there is one, a wait that sleeps is
  // woken by each completion, and not only by the last that it wants.
  Outcome<int> descriptor();
  // For a thread that has the lane for itself: completions that are there, without waiting; and to
  // sleep until there are some, rouse() or the deadline.
  int take_ready(Completion* completions, uint32_t max);
  void sleep(uint64_t deadline);

  // For LaneEvents, in its thread: sleeps until there are completions; false when something else
  // woke it. A rouse() ends its sleep, and then it looks at `stop`.
  bool watch(const std::atomic<bool>& stop);

  // Nothing is in flight. Any thread.
  bool idle() const { return in_flight_.load(std::memory_order_acquire) == 0; }
  // Drops what was prepared and completions that were not taken. Only while no thread is in the
  // lane, as the next.
  void reset();
  // Drops completions of a lane whose thread has ended.
  void discard_completions();
  // Cancels the operations on GPU memory and waits until they have ended.
  void end_transfers();

  // Waits until a thread that submits has done so. Any thread, as the next.
  void pass_submitter() { const std::lock_guard side(submitting_); }
  // Makes a waiter look at the session's epoch.
  void rouse() { queues_.rouse(); }
  // For views of a dead agent's node cache: an idle lane would keep their memory.
  void let_go_of_cache();

 private:
  using State = LaneSlot::State;
  struct Answer {
    uint32_t slot = 0;
    engine::Route route = engine::Route::none;
    int64_t result = 0;
  };

  bool must_move() const;
  void move();  // with both sides locked
  void submit_again();
  int take_slot(ring::Submission& entry, connection::Region* device_region, uint32_t* taken);
  bool has_lost_region(uint32_t slot) const;
  bool answer_from_cache(cache_view::CacheView& view, uint32_t slot);
  void refuse(uint32_t slot);
  void prefetch(const cache_view::CacheView& view, uint32_t slot) const;

  // Completions that can be taken, beside the stash.
  uint32_t ready() const { return queues_.ready() + transfers_.ready() + answers_.ready(); }
  bool has_completions() const { return stash_taken_ < stash_.size() || ready() > 0; }
  void tell_events();
  int wait_until(Completion* completions, uint32_t max, uint32_t min, uint64_t deadline,
                 bool only_own);
  uint32_t take(Completion* completions, uint32_t max);
  uint32_t take_stash(Completion* completions, uint32_t max);
  uint32_t take_answers(Completion* completions, uint32_t max);
  uint32_t take_transfers(Completion* completions, uint32_t max);
  uint32_t take_from_queue(Completion* completions, uint32_t max);
  void note_taken(uint32_t count);
  void fail_all();
  bool spin(uint32_t wanted) const;
  void sleep_for(uint32_t wanted, uint64_t deadline, LaneQueues::Sleeper sleeper);

  Ring& ring_;
  Session& session_;
  const uint32_t index_;
  LaneSlots slots_;
  LaneQueues queues_;
  LaneTransfers transfers_{slots_, queues_};
  // What ended as it was submitted, from the submitting side to the waiting side.
  SlotQueue<Answer> answers_;

  // The submitting side's.
  cache_view::ViewHold cache_;
  alignas(64) SideLock submitting_;
  std::vector<uint32_t> prepared_;  // slots in order, a queue: [first, last) modulo entries
  uint32_t prepared_first_ = 0;
  uint32_t prepared_last_ = 0;

  // The waiting side's.
  alignas(64) SideLock waiting_;
  std::vector<Completion> stash_;  // completions that are not in the queue any more
  size_t stash_taken_ = 0;
  uint32_t spin_looks_;  // the waiting thread's, which may use it without the lock

  // Submitted and not taken. Release on give-back, acquire in idle().
  alignas(64) std::atomic<uint32_t> in_flight_{0};

  // The waiting side's; null as long as no descriptor was asked for. Its thread uses the rest.
  std::unique_ptr<LaneEvents> events_;
};

}  // namespace penstock::lanes
