// Threads for work that may block: WorkerThreads do whatever is next, WorkerPool has a queue of
// items for them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/engine/threads.h"

namespace penstock::engine {

struct WorkerOptions {
  enum class Start : uint8_t {
    // For programs of ours: all threads with the pool, and the process ends where there are none.
    at_once,
    // For libraries in an application: as work comes. They take no signals. Where the process may
    // have no thread more, those that there are do it all; only where there is none, work is
    // refused.
    on_demand,
  };
  std::string name;       // of each thread; the kernel keeps 15 characters
  const char* what = "";  // on demand: what could not be started, "a thread for reads and writes"
  uint32_t count_max = 1;
  Start start = Start::at_once;
};

// The threads alone. Their owner decides what is next, and keeps what waits, under a mutex of its
// own.
class WorkerThreads {
 public:
  using Lock = std::unique_lock<Mutex>;
  // Does what is next, and says whether there was anything that may begin. Called with the lock
  // held, which it gives up while it does it. A thread asks again before it sleeps.
  using DoNext = std::function<bool(Lock&)>;

  WorkerThreads(Mutex& mutex, WorkerOptions options, DoNext do_next);
  ~WorkerThreads() { stop(); }
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  // With the mutex held, before something is added to `waiting` others: sees to a thread for it.
  // busy where there is none, which is logged.
  Status prepare(uint64_t waiting);
  // Something more may begin. The mutex need not be held: the thread that wakes would wait for it.
  void wake() { wake_.notify_one(); }
  // Without the mutex. Ends the threads, each as soon as nothing may begin. Nothing is added
  // meanwhile but by what is done. May be repeated.
  void stop();

 private:
  Status add_thread();
  void run();

  Mutex& mutex_;
  const WorkerOptions options_;
  const DoNext do_next_;
  Condition wake_;
  // Under the mutex.
  uint64_t idle_ = 0;
  bool stop_ = false;
  std::vector<Thread> threads_;
};

// Items wait in the order in which they were submitted, and nothing is allocated for them. Thread
// safe.
class WorkerPool {
 public:
  using Body = std::function<void(ListNode&)>;
  static constexpr uint64_t kNoBound = std::numeric_limits<uint64_t>::max();

  // `body` carries out an item in any of the threads. The item is in no list then, and the pool
  // does not touch it any more: it may be destroyed, or submitted again.
  WorkerPool(WorkerOptions options, Body body, uint64_t waiting_max = kNoBound);
  // Nothing waits.
  ~WorkerPool();

  // After an error the item is not in the pool: busy when `waiting_max` wait, or where there is no
  // thread; closed after stop().
  Status submit(ListNode& item);
  // True if the item had not begun: it will not. It need not be in the pool any more, nor in any
  // other state. Items are searched from the longest waiting one on.
  bool withdraw(const ListNode& item);
  // What waits is handed to `refuse`, without a lock; returns when the others have ended. May be
  // repeated.
  void stop(const std::function<void(ListNode&)>& refuse);

 private:
  bool do_next(WorkerThreads::Lock& lock);

  const Body body_;
  const uint64_t waiting_max_;
  Mutex mutex_;
  IntrusiveList<ListNode> waiting_;
  uint64_t waiting_count_ = 0;
  bool closed_ = false;
  WorkerThreads threads_;  // last: they use everything above
};

}  // namespace penstock::engine
