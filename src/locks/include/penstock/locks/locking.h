// The locks of an agent, as its fronts ask for them.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "penstock/locks/words.h"

namespace penstock::locks {

// Of an open of a file: what was locked through it went with a session. Whoever has it open hears
// EIO until it is closed, as what it is about to do rests on those locks.
class Open {
 public:
  bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }
  // Before anything begins in the next session, which pairs with is_lost() of an operation that has
  // begun in it.
  void lose() { is_lost_.store(true, std::memory_order_release); }

 private:
  std::atomic<bool> is_lost_{false};
};

// Thread safe; nothing blocks. `done` is called once, in a thread that must not be blocked, perhaps
// before the call returns. Agents in what is said here are those of the implementation.
class Locking {
 public:
  using Done = std::function<void(Answer)>;
  using Said = std::function<void(Answer, std::optional<Held>)>;

  virtual ~Locking() = default;

  // For one request that may wait, above 0.
  virtual RequestId next_request() = 0;
  // `waits` as of Table::set(); never answered with Answer::waits. `open` is the one through which
  // it is asked, and lives until closed(), also where nothing was locked.
  virtual void set(Open& open, const Wanted& wanted, RequestId waits, Done done) = 0;
  virtual void get(Open& open, const Wanted& wanted, Said done) = 0;
  // The request of a set() that waits ends soon: with `ended`, unless it has its lock.
  virtual void cancel(RequestId request) = 0;
  // The owner has nothing of that file any more.
  virtual void release(const Owner& owner, InodeId inode, Done done) = 0;
  // All that was locked through it is unlocked, and it is not used any more.
  virtual void closed(Open& open, Done done) = 0;
  // Whether it is of this agent.
  virtual bool is_ours(const Owner& owner) = 0;
};

}  // namespace penstock::locks
