// What goes along to an agent's successor.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/base.h"
#include "penstock/wire.h"

namespace penstock::connection {

// A part of a session that an agent was told of, or has something of. The connection's monitor
// calls it, one call at a time. It keeps what it owns under a lock of its own, with which it calls
// nothing of the connection.
class Follower {
 public:
  // Makes one request of the new agent.
  using Ask = std::function<Status(const wire::RequestBody&, const std::vector<int>&)>;

  // The agent is gone. First of all, while calls still wait for it.
  virtual void connection_lost() = 0;
  // Tells a new agent what it has to know. Nothing is added meanwhile: see Connection::establish().
  // An error ends the attempt; there will be another one.
  virtual Status set_up_again(const Ask& ask) = 0;
  // The new agent knows everything, and `epoch` begins. With the connection's lock held.
  virtual void connected_again(uint64_t epoch) = 0;
  // The epoch has changed, by a new connection or as there is none any more.
  virtual void epoch_changed() = 0;

 protected:
  ~Follower() = default;
};

}  // namespace penstock::connection
