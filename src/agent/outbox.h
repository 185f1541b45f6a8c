// Replies on their way to an application. Nobody waits for room in its socket: what finds none is
// kept here, in order, and the server sees to it that no more requests of the session are executed
// meanwhile, so that there are never more than those that ran already.
#pragma once

#include "session_socket.h"

#include <deque>
#include <mutex>
#include <string>

namespace penstock::agent {

// Thread safe.
class Outbox {
 public:
  explicit Outbox(int socket) : socket_(socket) {}

  // Sends the reply, or keeps it. An error when the peer has gone.
  Status post(OutgoingReply reply);
  // Sends what there is room for.
  Status flush();
  bool empty() const;

 private:
  Status flush_locked();

  const int socket_;
  mutable std::mutex mutex_;
  std::deque<OutgoingReply> waiting_;
};

}  // namespace penstock::agent
