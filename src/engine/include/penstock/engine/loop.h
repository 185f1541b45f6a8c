// Loop: the heart of a shard. One thread polls it; everything the shard owns runs in that thread.
#pragma once

#include <atomic>
#include <vector>

#include "penstock/engine/clock.h"
#include "penstock/engine/op.h"
#include "penstock/engine/random.h"

namespace penstock::engine {

// A source of work that a loop asks at each turn: a disk, a set of rings, a transport.
class Poller {
 public:
  virtual ~Poller() = default;
  // Does what is at hand without blocking; true if there was anything.
  virtual bool poll() = 0;
  // The loop is about to sleep: arm whatever wakes it (set "needs wake" flags, then look once
  // more). False when work arrived meanwhile.
  virtual bool prepare_sleep() { return true; }
  // The loop is awake again (also after a false from a poller asked later): disarm.
  virtual void woke() {}
};

// What a loop sleeps in.
class Parker {
 public:
  virtual ~Parker() = default;
  // Sleeps until unpark(), an event of its own (an I/O completion) or `deadline`. May return early
  // for no reason. An unpark() since the last park() makes it return at once.
  virtual void park(Time deadline) = 0;
  // Thread safe and signal safe.
  virtual void unpark() = 0;
  // From now on every write to `eventfd`, by whatever process, ends the park() that is under way,
  // or the next one if no turn of the loop comes before it (a turn in which there was something to
  // do, then). Until it is forgotten, which comes before it is closed; it need not be read. In the
  // loop's thread. Not every parker can (not_supported): then another thread has to wait for it and
  // call unpark().
  virtual Status watch(int eventfd) {
    (void)eventfd;
    return Code::not_supported;
  }
  virtual void forget(int eventfd) { (void)eventfd; }
  // Changes whenever a turn has taken note of such writes. Owner thread.
  virtual uint64_t writes_seen() const { return 0; }
};

// A completion at a time. Caller-owned, as every Op.
class Timer : public Op {
 public:
  Time deadline{};

 private:
  friend class Loop;
  size_t heap_index_ = SIZE_MAX;
};

// Not thread safe except where said. Must be idle (nothing pending) when destroyed.
class Loop {
 public:
  // `clock`, `random` and `parker` outlive the loop. `spin` is for how long run() keeps polling
  // after the last work before it sleeps; it spins less, down to not at all, while that finds
  // nothing, and as long again once a sleep turns out to have been shorter.
  Loop(const Clock& clock, Random& random, Parker& parker, Duration spin = Duration::zero());
  ~Loop();

  const Clock& clock() const { return clock_; }
  Random& random() { return random_; }
  // The time at which the current turn began.
  Time now() const { return now_; }

  // Queues `op` to complete with `status` in this or the next turn. Owner thread.
  void complete(Op& op, Status status);
  // The same from any thread; wakes the loop. Operations from one thread keep their order. Also the
  // way to run something on the loop: submit an Op whose completion is the thing to run. The loop
  // outlives the call, which looks at it once more after `op` may have completed.
  void complete_remote(Op& op, Status status);

  // Timers complete with ok when due. Owner thread.
  void start(Timer& timer, Time deadline);
  // True if the timer was pending: then it is not completed.
  bool cancel(Timer& timer);

  // Pollers are asked in the order of addition. Owner thread, not from inside poll().
  void add(Poller& poller);
  void remove(Poller& poller);

  // One turn; true if anything was done. Never blocks.
  bool poll();
  // When a turn would find something by itself, pollers aside: at once where an operation has
  // completed, or when the next timer is due. Owner thread.
  Time next_work() const {
    if (!ready_.empty() || remote_.load(std::memory_order_relaxed) != nullptr) return now_;
    return timers_.empty() ? kNever : timers_.front()->deadline;
  }
  // Turns, with sleep in between, until stop() is called from any thread.
  void run();
  void stop();
  // One turn, and when it found nothing, sleep until `deadline` at most. For threads that wait for
  // one thing.
  void poll_or_park(Time deadline);

 private:
  bool take_remote();
  bool fire_timers();
  bool run_ready();
  void sleep(Time deadline);
  void heap_up(size_t index);
  void heap_down(size_t index);

  const Clock& clock_;
  Random& random_;
  Parker& parker_;
  const Duration spin_;
  Time now_;
  IntrusiveList<Op> ready_;
  IntrusiveList<Op> running_;   // of the turn that is under way
  std::vector<Timer*> timers_;  // a binary heap by deadline
  std::vector<Poller*> pollers_;

  // Operations from other threads, last in first out; exchanged whole by the owner. Release on push
  // pairs with acquire in take_remote().
  alignas(64) std::atomic<Op*> remote_{nullptr};
  // Set by the owner before it looks at remote_ a last time and parks; sequentially consistent, as
  // are the push and the producers' load after it, so that one side always sees the other.
  alignas(64) std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};
};

}  // namespace penstock::engine
