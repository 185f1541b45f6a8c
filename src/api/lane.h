// One lane of a ring, as the application uses it.
//
// Two sides: at most one thread at a time submits, and at most one waits; they may be the same. The
// lane keeps a private copy of every operation in flight, so that it can be submitted again to the
// agent's successor, and knows the connection (epoch) that its queues belong to. Whichever side
// first notices that the session's epoch is another moves the lane: it takes what the old agent
// completed, and submits the rest again.
#pragma once

#include "cache_map.h"
#include "penstock.h"
#include "shared_memory.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/ring.h"

namespace penstock::route {
struct Transfer;
class Transfers;
}  // namespace penstock::route

namespace penstock::api {

class Ring;
class Session;
struct DeviceOperation;
struct Region;

// A ring's memory for one connection, with the eventfd that wakes its agent.
struct RingMemory {
  SharedMemory shared;
  ring::Memory layout;
  UniqueFd wake;
};

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

class Lane {
 public:
  Lane(Ring& ring, uint32_t index);
  ~Lane();

  Ring& ring() { return ring_; }
  uint32_t index() const { return index_; }

  // 0 or a negative errno.
  int prepare(const penstock_io& io);
  int prepare_gather(const penstock_gather& gather);
  int submit(uint32_t count);
  // `min` is cut to what is in flight if `only_own`: then nobody else submits.
  int wait(penstock_completion* completions, uint32_t max, uint32_t min, uint64_t deadline,
           bool only_own);
  // What a RingSource needs of the lane that it alone uses: completions that are there, without
  // waiting; and to sleep until there are some, rouse() or the deadline, while others take them.
  int take_ready(penstock_completion* completions, uint32_t max);
  void sleep(uint64_t deadline);
  // The operations in flight with this user data, as the agent knows them; those on GPU memory are
  // in `transfers`.
  struct Target {
    uint32_t slot = 0;
    uint32_t sequence = 0;
  };
  std::vector<Target> targets(uint64_t user_data, std::vector<DeviceOperation*>* transfers);
  void cancel_transfer(DeviceOperation& operation);
  // Cancels the operations on GPU memory and waits until they have ended.
  void end_transfers();

  bool idle() const { return in_flight_.load(std::memory_order_acquire) == 0; }
  // Drops what was prepared and completions that nobody took. Only while nobody is in the lane.
  void reset();
  // Drops completions of a lane whose thread has ended.
  void discard_completions();
  // Waits until whoever submits has done so. Any thread.
  void pass_submitter() { const std::lock_guard side(submitting_); }
  // Makes a waiter look at the session's epoch. Any thread.
  void rouse();
  // Of a node cache that is gone: an idle lane would keep its memory. Any thread.
  void let_go_of_cache();

 private:
  // `answered`: by the node cache, in this process, or refused.
  enum class State : uint8_t { free, prepared, submitted, answered };
  struct Slot {
    ring::Submission entry{};
    Region* device_region = nullptr;  // of GPU memory: then the agent never sees the entry
    uint64_t generation = 0;          // of the region in host memory; 0: there is none
    std::byte* read_to = nullptr;     // reads into host memory
    // Written by the submitting side (prepared, submitted) and the waiting side (free); read by
    // cancel. Release and acquire order the entry.
    std::atomic<State> state{State::free};
  };

  int check(const penstock_io& io, ring::Submission* entry, Region** device_region) const;
  int check_region(const penstock_io& io, ring::Submission* entry, Region** device_region) const;
  static int check_checksums(const penstock_io& io, const Region& region);
  int take_place(ring::Submission& entry, Region* device_region, uint32_t* taken);
  bool is_with_agent(uint32_t slot) const;
  bool has_lost_region(uint32_t slot) const;
  uint32_t ready() const;

  // lane_transfers.cc: operations on GPU memory
  void take_transfers_of_session();
  void keep_region(Region& region);
  int check_transfer(const penstock_io& io) const;
  int check_gather(const penstock_gather& gather) const;
  void make_transfers();
  void prepare_transfer(const penstock_io& io, uint32_t slot);
  bool start_transfer(uint32_t slot);
  void submit_transfers();
  static void transfer_ended(DeviceOperation& operation, const engine::Op& op, uint64_t transferred,
                             engine::Route route);
  uint32_t take_transfers(penstock_completion* completions, uint32_t max);
  bool has_transfers() const;
  void help_transfers() const;

  // lane_cache.cc: reads that the node cache answers
  CacheView* cache_view();
  void prefetch(const CacheView& view, uint32_t slot) const;
  bool answer(CacheView& view, uint32_t slot);
  struct Answer {
    uint32_t slot = 0;
    engine::Route route = engine::Route::none;
    int64_t result = 0;
  };
  void put_answer(const Answer& answer);
  void tell_answers();
  uint32_t take_answers(penstock_completion* completions, uint32_t max);

  bool must_move() const;
  void move();  // with both sides locked
  void fail_all();
  uint32_t take(penstock_completion* completions, uint32_t max);
  uint32_t take_from_queue(penstock_completion* completions, uint32_t max);
  bool spin(uint32_t wanted) const;
  uint32_t take_free_slot();
  void give_free_slot(uint32_t slot);

  Ring& ring_;
  Session& session_;
  const uint32_t index_;
  const uint32_t entries_;
  std::vector<Slot> slots_;

  // Free slots, from the waiting side (give) to the submitting side (take): a queue of all slots.
  std::vector<uint32_t> free_slots_;
  alignas(64) std::atomic<uint32_t> free_given_{0};  // release pairs with the acquire in take
  uint32_t free_taken_ = 0;                          // the submitting side's

  // Operations on GPU memory, by slot; made when the first is prepared. Slots that have ended go
  // from whoever drives the transfers (one at a time) to the waiting side: a queue of all slots.
  std::unique_ptr<DeviceOperation[]> operations_;
  std::vector<uint32_t> ended_transfers_;
  std::vector<route::Transfer*> starting_transfers_;  // the submitting side's, for one call
  // What carries them out, the same for good. Release by who found them first pairs with acquire.
  std::atomic<route::Transfers*> transfers_{nullptr};
  uint32_t transfers_number_ = 0;  // of those; written once, under the submitting side's lock
  // Of what is prepared: those that have begun are waited for by who releases their region. The
  // submitting side's.
  std::vector<std::shared_ptr<Region>> prepared_regions_;
  alignas(64) std::atomic<uint32_t> transfers_ended_{0};  // release pairs with acquire in take
  std::atomic<uint32_t> transfers_started_{0};  // relaxed: whoever waits for their end knows them
  uint32_t transfers_taken_ = 0;                // the waiting side's

  // What ended as it was submitted, from the submitting side to the waiting side: a queue of all
  // slots.
  std::vector<Answer> answers_;
  alignas(64) std::atomic<uint32_t> answers_made_{0};  // release pairs with acquire in take
  uint32_t answers_taken_ = 0;                         // the waiting side's

  // The submitting side's.
  std::shared_ptr<CacheView> view_;
  uint64_t view_serial_ = 0;
  CacheView::Hits hits_;
  alignas(64) SideLock submitting_;
  std::vector<uint32_t> prepared_;  // slots in order, a queue: [first, last) modulo entries
  uint32_t prepared_first_ = 0;
  uint32_t prepared_last_ = 0;

  // The waiting side's.
  alignas(64) SideLock waiting_;
  std::vector<penstock_completion> stash_;  // completions that are not in the queue any more
  size_t stash_taken_ = 0;
  uint32_t spin_looks_;  // the waiting thread's also while it sleeps

  // Submitted and not taken. Release on give-back, acquire in idle().
  alignas(64) std::atomic<uint32_t> in_flight_{0};
  // Set to end a sleep; cleared by the waiter before it looks at anything.
  std::atomic<bool> roused_{false};

  // Replaced with both sides locked and this mutex held; rouse() holds only the mutex, each side
  // reads with its own lock.
  std::mutex queues_mutex_;
  std::shared_ptr<RingMemory> memory_;
  ring::AppLane queues_;
  uint64_t epoch_ = 0;
};

}  // namespace penstock::api
