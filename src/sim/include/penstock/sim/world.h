// SimWorld: virtual time, randomness and the queue of what will happen, all from one seed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "penstock/engine.h"

namespace penstock::sim {

using engine::Duration;
using engine::Time;

// Stands still while any loop of the world has work; moves to the next event when all are idle.
class SimClock final : public engine::Clock {
 public:
  Time now() const override;
  Time lease_now() const override { return now() + asleep_; }
  // Runs at the pace of now(), from 2025-01-01.
  engine::WallTime wall() const override;

 private:
  friend class SimWorld;
  explicit SimClock(uint64_t seed) : seed_(seed) {}
  void advance(Time to);

  uint64_t seed_;
  Time now_{std::chrono::seconds(1)};
  Duration asleep_{};
  // Every turn of a loop asks for the time: so many turns without progress are a livelock.
  mutable uint64_t asked_since_advance_ = 0;
};

class Fibers;
class SimParker;

// While it lives, threads, locks and conditions of engine::Threads are simulated on the thread that
// made it: each engine::Thread is a fiber. Whatever a fiber or the test itself waits for, all
// others and all loops go on meanwhile, and time moves when none of them can.
class SimWorld {
 public:
  explicit SimWorld(uint64_t seed);
  ~SimWorld();  // all threads have ended
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  uint64_t seed() const { return seed_; }
  const SimClock& clock() const { return clock_; }
  Time now() const { return clock_.now_; }
  // All machines are suspended for so long: only what leases count on goes on.
  void suspend(Duration time) { clock_.asleep_ += time; }
  engine::Random& random() { return random_; }
  // A random decision that is part of the trace.
  bool chance(uint32_t permille) { return permille != 0 && random_.chance(permille, 1000); }
  // Uniform in [min, max].
  Duration between(Duration min, Duration max);
  // For tests: a rare branch that half of all seeds never take and the other half take with the
  // given probability, so that runs differ in kind and not only in order.
  bool buggify(std::string_view name, uint32_t permille);

  // Runs `action` when all loops are idle and time has come to `when`; in the order of (time, call
  // of at()). `label` joins the trace.
  using EventId = uint64_t;
  EventId at(Time when, std::string_view label, std::function<void()> action);
  EventId after(Duration delay, std::string_view label, std::function<void()> action) {
    return at(now() + delay, label, std::move(action));
  }
  // Nothing happens if it has run already.
  void cancel(EventId id);

  // Folds a fact into the trace: the same seed must give the same hash, and two runs that differ
  // anywhere nearly always give different ones. With PENSTOCK_TRACE set, also printed.
  void trace(std::string_view label, uint64_t a = 0, uint64_t b = 0);
  uint64_t trace_hash() const { return trace_hash_; }

  // The calling thread sleeps while the world goes on: for a while, or until `done` says so (then
  // true) or the time is over (then false).
  void run_for(Duration duration);
  bool run_until(const std::function<bool()>& done, Duration limit = std::chrono::hours(1));

  // A simulation that comes this far hangs, and is aborted as a deadlock is.
  void set_time_limit(Duration limit) { time_limit_ = Time(limit); }

  // A process that can be stopped, as by SIGSTOP: none of its threads and loops does anything, and
  // they find no time missing when it goes on. 0 never is. A thread belongs to the one that its
  // maker belongs to, a loop to that of who makes it, until it enters another one.
  using Process = uint32_t;
  // The calling thread from now on; returns the one before. Returns once that one is not stopped.
  Process enter_process(Process process);
  void stop_process(Process process) { stopped_.insert(process); }
  void continue_process(Process process) { stopped_.erase(process); }
  bool is_stopped(Process process) const { return stopped_.contains(process); }

  // How often a thread loses its processor to another one where it takes a lock that is free.
  uint32_t switch_permille = 50;
  // How often it loses it for a while there, and time goes on without it.
  uint32_t stall_permille = 0;
  Duration stall_max = std::chrono::milliseconds(3);

  // Lets every loop do a turn and one thread go on, or, when there was nothing to do, moves time.
  // For what waits on the test's own stack.
  void turn() { turn(nullptr, engine::kNever); }

 private:
  friend class Fibers;
  friend class SimParker;
  struct Event {
    std::string_view label;
    std::function<void()> action;
  };

  void turn(const SimParker* except, Time deadline);
  void advance(Time deadline);
  [[noreturn]] void give_up(const char* why) const;

  const uint64_t seed_;
  SimClock clock_;
  engine::SeededRandom random_;
  std::map<std::pair<Time, EventId>, Event> events_;
  std::map<EventId, Time> event_times_;
  EventId next_event_ = 1;
  std::vector<SimParker*> parkers_;
  std::unique_ptr<Fibers> fibers_;
  std::set<Process> stopped_;
  uint64_t trace_hash_ = 0;
  const bool print_trace_;
  Time time_limit_{std::chrono::hours(24 * 30)};
};

// The parker of a loop on virtual time. With nothing to do in any loop or thread and nothing
// scheduled, the world aborts the process with a message that names the seed and says what each
// thread waits for.
class SimParker final : public engine::Parker {
 public:
  // `loop`, where it is known, completes operations also by what calls Loop::complete() while its
  // thread sleeps.
  explicit SimParker(SimWorld& world, const engine::Loop* loop = nullptr);
  ~SimParker() override;
  SimParker(const SimParker&) = delete;
  SimParker& operator=(const SimParker&) = delete;

  // From now on the world polls `loop` whenever something waits, until the second; also when only
  // time has moved, if `at_all_times`.
  void drive(engine::Loop& loop, bool at_all_times);
  void stop_driving();

  void park(Time deadline) override;
  void unpark() override { signalled_ = true; }

 private:
  friend class Fibers;
  friend class SimWorld;
  SimWorld& world_;
  engine::Loop* loop_ = nullptr;  // that is driven
  void* thread_ = nullptr;        // which drives it, or sleeps in it
  // When the thread that sleeps in park() is to go on.
  Time next_call() const;

  const engine::Loop* own_loop_ = nullptr;
  SimWorld::Process process_ = 0;
  bool signalled_ = false;
  bool at_all_times_ = false;
  Time slept_at_{};  // when its loop went to sleep
  Time wish_ = engine::kNever;
};

namespace internal {
struct ParkerHolder {
  ParkerHolder(SimWorld& world, const engine::Loop* loop) : held(world, loop) {}
  SimParker held;
};
}  // namespace internal

// What calls run() or poll() of a simulated loop, and when.
enum class LoopDriver : uint8_t {
  world,              // the world, whenever time has moved: for pollers that wake no loop
  world_when_called,  // the world, as a thread would: it sleeps until it is called
  thread,             // a thread that the code under test has for it
};

// A loop of the world; any number of them run in the one thread.
class SimLoop : private internal::ParkerHolder, public engine::Loop {
 public:
  explicit SimLoop(SimWorld& world, LoopDriver driver = LoopDriver::world)
      : ParkerHolder(world, this), Loop(world.clock(), world.random(), held), world_(world) {
    if (driver != LoopDriver::thread) held.drive(*this, driver == LoopDriver::world);
  }
  ~SimLoop() { held.stop_driving(); }
  engine::Parker& parker() { return held; }
  SimWorld& world() { return world_; }

 private:
  SimWorld& world_;
};

// Which seeds a simulation test runs: [first, first + count), `count` by default from 1, or what
// PENSTOCK_SEED and PENSTOCK_SEEDS say.
struct SeedRange {
  uint64_t first = 1;
  uint64_t count = 1;
};
SeedRange seed_range(uint64_t default_count);

}  // namespace penstock::sim
