#include "outbox.h"

#include "limits.h"
#include "session_socket.h"

namespace penstock::session_server {

Status Outbox::post(sessions::ReplyPacket reply) {
  const std::lock_guard lock(mutex_);
  ASSERT(waiting_.size() <= limits::kRequestsAtOnceMax);
  waiting_.push_back(std::move(reply));
  return flush_locked();
}

Status Outbox::flush() {
  const std::lock_guard lock(mutex_);
  return flush_locked();
}

bool Outbox::empty() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty();
}

Status Outbox::flush_locked() {
  while (!waiting_.empty()) {
    const Status sent = try_send(socket_, waiting_.front());
    if (sent == Code::busy) return Code::ok;
    if (!sent.ok()) {
      waiting_.clear();
      return sent;
    }
    waiting_.pop_front();
  }
  return Code::ok;
}

}  // namespace penstock::session_server
