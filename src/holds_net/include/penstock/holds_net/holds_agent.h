// The holds of a process with a file system, which it has from a HoldsService of any node, its own
// among them: docs/decisions/0061.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/holds.h"
#include "penstock/wire.h"

namespace penstock::holds_net {

// What it points to outlives the agent.
struct HoldsAgentConfig {
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;  // of that loop
  NodeId node;
  engine::Address service;
  // In place of `service`: where that is at the moment, asked in the loop. Node 0: nobody knows
  // yet.
  std::function<engine::Address()> find = {};
  // Is called in the loop.
  holds::Keeping* keeping = nullptr;
  // Another session begins: what is asked of targets names it, and nothing has begun in it yet. In
  // the loop.
  std::function<void(holds::AgentId)> session_changes;
  // Of a node that is restricted: the service does not know that it may know of the inode. The one
  // with the names, which is beside it, is shown that; `done` is called once, from any thread, also
  // when the agent is no more, and then a hold is asked for once more or refused with that status.
  // In the loop, without blocking. Empty: it is refused at once, as stale.
  std::function<void(InodeId, std::function<void(Status)> done)> show = {};
  wire::Protocol speaks = wire::kNodeProtocol;
};

// Repeats what is not answered, as long as the service is not reached: operations wait. A session
// is over when the service says so, of whatever life: until then what was written behind stays.
//
// What Holding says is thread safe, and takes a lock that is never held while anything waits. All
// else is for the owner thread of the loop, but for making it and its end.
class HoldsAgent : public holds::Holding {
 public:
  static std::unique_ptr<HoldsAgent> make(const HoldsAgentConfig& config);
  // close() has completed, or start() was never called.
  ~HoldsAgent() override = default;

  virtual void start() = 0;
  // Nothing begins any more, and who waits ends with `closed`. Once all that runs has ended, the
  // service is told that nothing is kept here, so that nobody waits for the lease; where it is not
  // reached, not for long. Before, the file system has put away what it had to write and keeps
  // nothing more. Then `done` completes. Once, after start().
  virtual void close(engine::Op& done) = 0;

  // Whether what meta said at that stamp may be kept (holds::Keeper::may_keep()). Thread safe.
  virtual bool may_keep(InodeId inode, holds::Stamp stamp) = 0;
  // There is a session, and its lease runs. Thread safe.
  virtual bool is_ready() = 0;
  // The session, the life of the table that was heard last (0: none), whether the service knows of
  // the session, as far as is known here, and whether its lease runs. Thread safe.
  struct Standing {
    holds::AgentId session;
    uint16_t life = 0;
    bool has_begun = false;
    bool is_leased = false;
  };
  virtual Standing standing() = 0;

  // Thread safe.
  struct Figures {
    uint64_t sessions = 0;  // that have begun
    uint64_t calls = 0;
    uint64_t failed = 0;   // of these: without an answer
    uint64_t asked = 0;    // for holds
    uint64_t recalls = 0;  // that were answered
    size_t running = 0;    // operations that have entered
    size_t waiting = 0;
  };
  virtual Figures figures() = 0;
};

}  // namespace penstock::holds_net
