// Replies on their way to an application. No thread waits for room in its socket: a reply that
// finds none is kept here, in order, and the server sees to it that no more requests of the session
// are executed meanwhile, so that there are never more than those that ran already.
#pragma once

#include <deque>
#include <mutex>

#include "penstock/base.h"
#include "penstock/sessions.h"

namespace penstock::session_server {

// Thread safe.
class Outbox {
 public:
  explicit Outbox(int socket) : socket_(socket) {}

  // Sends the reply, or keeps it. An error when the peer has gone.
  Status post(sessions::ReplyPacket reply);
  // Sends what there is room for.
  Status flush();
  bool empty() const;

 private:
  Status flush_locked();

  const int socket_;
  mutable std::mutex mutex_;
  std::deque<sessions::ReplyPacket> waiting_;
};

}  // namespace penstock::session_server
