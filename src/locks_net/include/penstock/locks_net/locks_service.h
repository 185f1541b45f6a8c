// The table of locks as a service of the node that answers for the names: docs/decisions/0063.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "penstock/engine.h"
#include "penstock/locks.h"
#include "penstock/wire.h"

namespace penstock::locks_net {

using wire::kLocksService;

// What it points to outlives the service. What it calls is called in the loop.
struct LocksServiceConfig {
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;  // of that loop
  engine::Address address;
  // Of the holds beside it, which say who has a session.
  uint16_t life = 0;
  // Sessions on record when the life began, of which gone() has not been said: nothing is given
  // before each of them has said what it has, or is gone.
  std::vector<locks::AgentId> before;
  std::function<bool(locks::AgentId)> is_good;
  // Whether it may answer; null: as long as it lives.
  std::function<bool()> may_answer = {};
  // Sessions have yet to say to the holds what they have: the time to say it here begins after
  // that. Null: it begins with start().
  std::function<bool()> awaits_claims = {};
  // Its session shall end: it renews its lease, and does not say what it has.
  std::function<void(NodeId)> expel;
  // Whether a session may have that lock, or with none hear who has one, and whether a node is
  // restricted: what it says that it has counts where nobody else says so. Without blocking. Empty:
  // nobody is restricted.
  std::function<bool(locks::AgentId, const locks::Wanted&)> judge = {};
  std::function<bool(NodeId)> is_restricted = {};
  wire::Protocol speaks = wire::kNodeProtocol;
};

// Owner thread of the loop, but for making it, its end and figures().
class LocksService {
 public:
  static std::unique_ptr<LocksService> make(LocksServiceConfig config);
  // stop() has completed, or start() was never called.
  virtual ~LocksService() = default;

  virtual void start() = 0;
  // No call is taken any more, and what waits ends with peer_gone; then `done` completes. Once,
  // after start().
  virtual void stop(engine::Op& done) = 0;
  // The session is over, and nothing that it asked for is done any more. Also before start().
  virtual void gone(locks::AgentId agent) = 0;

  // Thread safe.
  struct Figures {
    uint64_t answered = 0;  // calls
    uint64_t refused = 0;
    uint64_t denied = 0;  // locks, as they were judged
    size_t locks = 0;
    size_t waiting = 0;
    bool is_claiming = false;
  };
  virtual Figures figures() = 0;
};

}  // namespace penstock::locks_net
