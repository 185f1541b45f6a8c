// The threads seam: threads of code that may block, and what they wait with.
//
// On a machine these are the operating system's threads, locks and conditions. In a simulation each
// thread is a fiber of one thread of the operating system, and the simulation decides which of them
// goes on whenever one waits. Code that may run in a simulation uses the names below and never the
// standard library's: one std::mutex held while its fiber gives way stops the whole simulation.
//
// Names and rules are those of <mutex>, <shared_mutex>, <condition_variable> and <thread>, so that
// std::lock_guard, std::unique_lock and std::shared_lock work with them.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>

#include "penstock/base.h"
#include "penstock/engine/clock.h"

namespace penstock::engine {

// A simulation's threads. Only threads that belong to it call it.
class Threads {
 public:
  using Number = Id<struct ThreadNumberTag, uint64_t>;
  static constexpr Number kNone{0};

  // What a thread waits for, as a deadlock is explained with it.
  struct Wait {
    const void* address = nullptr;  // what wake() names
    const char* what = "";          // "a mutex", "an operation of a loop"
    Number holder = kNone;          // the thread that has what is waited for, where that is known
    // Over in a moment, whatever else waits: a loop's thread may wait for that, and for nothing
    // else.
    bool brief = false;
  };

  // The simulation that the calling thread belongs to; null on a thread of the operating system.
  static Threads* simulated() { return simulated_; }

  virtual ~Threads() = default;

  // Runs `body` as a thread of its own, from some later switch on.
  virtual Number start(std::string name, std::function<void()> body) = 0;
  // Waits until it has ended. Once for each thread.
  virtual void join(Number thread) = 0;
  virtual Number self() const = 0;
  virtual Time now() const = 0;
  // The calling thread waits for wake() of this address; false when `at_most` went by first. Others
  // run meanwhile, and none between the caller's last look at its condition and the wait.
  virtual bool wait(const Wait& wait, Duration at_most = Duration::max()) = 0;
  // Threads that wait for the address go on at some later switch: one of them, or all.
  virtual void wake_one(const void* address) = 0;
  virtual void wake_all(const void* address) = 0;
  // A point where a thread of the operating system might lose its processor: another one may go on.
  virtual void may_switch() = 0;
  // The calling thread runs a loop, and has done a turn in which there was work.
  virtual void turn_ended() = 0;

 protected:
  // For the simulation: what simulated() says on this thread from now on.
  static Threads* exchange_simulated(Threads* threads) {
    return std::exchange(simulated_, threads);
  }

 private:
  static inline thread_local constinit Threads* simulated_ = nullptr;
};

// For how long a lock is held.
enum class Held : uint8_t {
  briefly,
  across_calls,  // while its holder waits for disks, databases or loops: no loop may wait for it
};

class Mutex {
 public:
  explicit Mutex(Held held = Held::briefly) : brief_(held == Held::briefly) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock();
  bool try_lock();
  void unlock();

 private:
  friend class Condition;
  void lock_simulated(Threads& threads);
  void unlock_simulated(Threads& threads);

  std::mutex system_;
  Threads::Number holder_ = Threads::kNone;  // in a simulation
  const bool brief_;
};

class SharedMutex {
 public:
  explicit SharedMutex(Held held = Held::briefly) : brief_(held == Held::briefly) {}
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock();
  void unlock();
  void lock_shared();
  void unlock_shared();

 private:
  std::shared_mutex system_;
  // In a simulation.
  Threads::Number writer_ = Threads::kNone;
  uint32_t readers_ = 0;
  const bool brief_;
};

class Condition {
 public:
  using Lock = std::unique_lock<Mutex>;

  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  void notify_one();
  void notify_all();
  // May return early for no reason.
  void wait(Lock& lock);
  template <class Predicate>
  void wait(Lock& lock, Predicate done) {
    while (!done()) wait(lock);
  }
  // False when the time went by first. May return early for no reason.
  bool wait_for(Lock& lock, Duration at_most);
  // What `done` says at the end.
  template <class Predicate>
  bool wait_for(Lock& lock, Duration at_most, Predicate done) {
    // One clock measures the whole of it, however often it wakes: a simulation's own, or the
    // machine's.
    const Time end = now() + at_most;
    while (!done()) {
      const Time at = now();
      if (at >= end) return false;
      wait_for(lock, end - at);
    }
    return true;
  }

 private:
  static Time now();

  std::condition_variable system_;
};

class Thread {
 public:
  Thread() = default;
  // Throws std::system_error where the operating system has no thread more, as std::thread does.
  Thread(std::string name, std::function<void()> body);
  // In an application: the thread takes no signals, and where the process may have no thread more
  // that is busy, as start_thread() tells it of `what`.
  static Outcome<Thread> start(std::string name, const char* what, std::function<void()> body);
  ~Thread() { ASSERT(!joinable()); }
  Thread(Thread&& other) noexcept { *this = std::move(other); }
  Thread& operator=(Thread&& other) noexcept;

  bool joinable() const { return system_.joinable() || number_ != Threads::kNone; }
  void join();

 private:
  std::thread system_;
  Threads::Number number_ = Threads::kNone;  // in a simulation
};

}  // namespace penstock::engine
