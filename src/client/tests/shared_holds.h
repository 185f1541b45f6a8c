// The holds of several file systems of one process, from a table that is there at once: nothing is
// lost on the way, and no lease ends.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "penstock/holds.h"

namespace penstock::client {

// Thread safe. All file systems are closed before it ends.
class SharedHolds {
 public:
  explicit SharedHolds(size_t agents);
  ~SharedHolds();

  holds::Holding& holding(size_t agent);
  // Whom it tells of recalls, from now on; null: nobody, who has nothing then.
  void tell(size_t agent, holds::Keeping* keeping);
  // Another agent has it in use.
  bool is_in_use_beside(size_t agent, InodeId inode);
  holds::Hold hold_of(size_t agent, InodeId inode);
  // Its lease is over: others get what it had when it has dropped that, and when `settle` has made
  // good what it had exclusively, which is done by a thread that may block.
  void lose(size_t agent);
  std::function<void(InodeId)> settle;
  uint64_t recalls() const { return recalls_; }

  // Broken on purpose: a recall is answered before what it asks for is done.
  bool answers_before_drop = false;

 private:
  class Agent;

  void act();
  bool act_of(Agent& agent);
  void do_it(const holds::Action& action);

  engine::Mutex mutex_;
  holds::Table table_;
  std::vector<std::unique_ptr<Agent>> agents_;
  uint64_t recalls_ = 0;
};

}  // namespace penstock::client
