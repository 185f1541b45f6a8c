// The threads of a simulation: fibers, and which of them goes on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/sim/world.h"
#include "penstock/sim_context.h"

namespace penstock::sim {

// One fiber runs at a time, from one wait to the next. Which of those that are ready is the next is
// a random decision. What drives the world (the test's own stack, called the main one) may wait as
// any fiber; the others run meanwhile.
class Fibers final : public engine::Threads {
 public:
  explicit Fibers(SimWorld& world);
  ~Fibers() override;

  Number start(std::string name, std::function<void()> body) override;
  void join(Number thread) override;
  Number self() const override;
  Time now() const override;
  bool wait(const Wait& wait, Duration at_most) override;
  void wake_one(const void* address) override { wake(address, false); }
  void wake_all(const void* address) override { wake(address, true); }
  void may_switch() override;
  void turn_ended() override;

  // For the world, on the main stack. Lets one fiber that is ready go on; false if none is.
  bool run_one();
  // Lets the thread of this parker's loop do a turn, if it was called or does not sleep; what it
  // did.
  enum class Turned : uint8_t {
    worked,
    slept,
    waits,  // in the middle of a turn, for a lock
  };
  Turned turn(SimParker& parker);
  // The loop of this parker goes.
  void end(SimParker& parker);

  // Of the calling thread, or of the test itself.
  SimWorld::Process process() const;
  SimWorld::Process enter_process(SimWorld::Process process);

  bool on_main() const { return running_ == nullptr; }
  // The calling fiber, which runs the loop of this parker, sleeps until turn().
  void sleep(SimParker& parker);

  // One line for each fiber that has not ended: its name, and what it waits for.
  std::string describe() const;

 private:
  enum class State : uint8_t { ready, running, waiting, sleeping, turned, ended };
  struct Fiber;
  // A wait that is under way, of a fiber or (null) on the main stack.
  struct Waiter {
    Fiber* fiber = nullptr;
    Wait wait;
    bool woken = false;
    bool timed_out = false;
  };
  struct Fiber {
    Number number;
    std::string name;
    std::unique_ptr<Context> context;
    State state = State::ready;
    const Waiter* waits = nullptr;
    // Of a fiber that does the turns of a loop for the world; null again when the loop goes.
    engine::Loop* loop = nullptr;
    bool drives_loop = false;
    SimWorld::Process process = 0;
  };

  Fiber& drive(SimParker& parker);
  Fiber* find(Number number) const;
  std::string name_of(Number number) const;
  void go_on(Fiber& fiber);
  void give_way(State state);
  void wake(const void* address, bool all);
  void end_wait(Waiter& waiter);

  SimWorld& world_;
  // Apart from the world's, so that what tests decide does not depend on how often threads switch.
  engine::SeededRandom random_;
  Threads* const outer_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> ready_;
  std::vector<Waiter*> waiters_;
  Fiber* running_ = nullptr;
  uint64_t next_number_ = 1;
  SimWorld::Process process_of_main_ = 0;
  const Number main_{next_number_++};
};

}  // namespace penstock::sim
