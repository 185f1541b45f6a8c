// The locks of a process with a file system, which it has from a LocksService of any node, its own
// among them: docs/decisions/0063.
#pragma once

#include <functional>
#include <memory>

#include "penstock/engine.h"
#include "penstock/locks.h"
#include "penstock/wire.h"

namespace penstock::locks_net {

// What the agent of the holds knows.
struct Standing {
  locks::AgentId session;
  uint16_t life = 0;  // as it was last heard; 0: never
  bool has_begun = false;
  // No: nothing is said, and nothing that is told is taken, as it may be of a service that has been
  // replaced; what the agent has stays.
  bool is_leased = true;
};

// What it points to outlives the agent.
struct LocksAgentConfig {
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;  // of that loop
  NodeId node;
  engine::Address service;
  // In place of `service`: where that is at the moment, asked in the loop, once a session has begun
  // there.
  std::function<engine::Address()> find = {};
  std::function<Standing()> standing;  // in the loop
  // Of a node that is restricted: as holds_net::HoldsAgentConfig has it, and `done` is not called
  // before that has returned. Empty: what is refused ends so at once.
  std::function<void(InodeId, std::function<void(Status)> done)> show = {};
  wire::Protocol speaks = wire::kNodeProtocol;
};

// Says nothing to anybody but to begin with while nobody locks anything. Repeats what is not
// answered, as long as the session lasts. What was asked in one that is over, through an open that
// had nothing, is asked again in the next.
//
// What Locking says is thread safe, and takes a lock that is never held while anything waits. All
// else is for the owner thread of the loop, but for making it and its end.
class LocksAgent : public locks::Locking {
 public:
  static std::unique_ptr<LocksAgent> make(LocksAgentConfig config);
  // close() has completed, or start() was never called.
  ~LocksAgent() override = default;

  virtual void start() = 0;
  // Another session begins: nothing has begun in it yet.
  virtual void begins(locks::AgentId session) = 0;
  // Who waits ends with `lost`. Then `done` completes. Once, after start(), and before the session
  // ends in which it has locks.
  virtual void close(engine::Op& done) = 0;

  // Thread safe.
  struct Figures {
    uint64_t calls = 0;
    uint64_t failed = 0;  // of these: without an answer
    size_t files = 0;     // owners with locks in files
    size_t opens = 0;     // through which they were locked
    size_t waiting = 0;
  };
  virtual Figures figures() = 0;
};

}  // namespace penstock::locks_net
