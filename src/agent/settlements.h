// What sessions of agents had exclusively when they ended: settled, before others get it.
#pragma once

#include "limits.h"

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/holds.h"

namespace penstock::agent {

// Thread safe. Threads of its own do it, so that nobody waits for targets that are gone: what
// cannot be settled stays its session's, and is tried again, in turn with what others had.
class Settlements {
 public:
  // One file, in a thread that may block; or where there is none, all that nobody has.
  using Settle = std::function<Status(InodeId)>;

  Settlements() = default;
  ~Settlements() { stop(); }
  Settlements(const Settlements&) = delete;
  Settlements& operator=(const Settlements&) = delete;

  // `done` is called, in one of the threads, when all of it is settled; never after stop(). Before
  // begin() it waits for that. Without files: they are not known, and all that nobody has is
  // settled; or nothing where it came before begin(), as whoever begins has done that.
  void add(holds::AgentId agent, const std::vector<InodeId>& files, std::function<void()> done);
  void begin(Settle settle);
  // Returns when no `settle` and no `done` runs any more. Idempotent.
  void stop();

  // It was added, and is not settled yet.
  bool has(holds::AgentId agent);
  size_t waiting();

 private:
  struct Item {
    holds::AgentId agent;
    std::deque<InodeId> files;
    std::function<void()> done;
    engine::Time next;  // when it is tried again
    bool is_told = false;
  };

  void run();
  bool take_next(std::unique_lock<engine::Mutex>& lock, Item& item);
  Status settle_some(Item& item);

  engine::Mutex mutex_;
  engine::Condition wake_;
  // Under the mutex.
  std::deque<Item> fresh_;  // go first: others may be quick, and those that were tried are not
  std::deque<Item> again_;  // by the time of their next try
  std::set<holds::AgentId> known_;
  bool has_begun_ = false;
  bool is_stopping_ = false;
  Settle settle_;
  std::vector<engine::Thread> threads_;  // of who begins and stops
};

}  // namespace penstock::agent
