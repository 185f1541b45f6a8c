// The thread that receives what the agent replies, and finds its successor when it died.
#include "channel.h"

#include <algorithm>
#include <sys/socket.h>

#include "penstock/connection/connection.h"

namespace penstock::connection {

void Connection::monitor() {
  while (true) {
    std::shared_ptr<Socket> socket;
    {
      const std::lock_guard lock(mutex_);
      socket = socket_;
    }
    ASSERT(socket != nullptr);
    receive_all(socket);
    lose();
    if (reconnect()) continue;
    set_dead(true);
    return;
  }
}

// Calls and operations end at once from now on; or they wait for a connection again.
void Connection::set_dead(bool dead) {
  {
    const std::lock_guard lock(mutex_);
    dead_.store(dead, std::memory_order_release);
    if (!dead) return;
    epoch_.fetch_add(1, std::memory_order_release);
    changed_.notify_all();
  }
  for (Follower* const follower : followers_) follower->epoch_changed();
}

void Connection::receive_all(const std::shared_ptr<Socket>& socket) {
  while (true) {
    UniqueFd given;
    Result<wire::Reply> reply = receive_reply(socket->fd.get(), 0, &given);
    if (!reply) {
      if (reply.error() != Code::peer_gone) give_up(*socket);
      return;
    }
    take_reply(std::move(*reply), std::move(given), socket);
  }
}

// The agent's reply makes no sense: the monitor sees the end of the socket, and the connection is
// lost.
void Connection::give_up(Socket& socket) {
  socket.is_garbled.store(true, std::memory_order_relaxed);
  ::shutdown(socket.fd.get(), SHUT_RDWR);
}

void Connection::look_for_reply(const std::shared_ptr<Socket>& socket, const Pending& pending) {
  const auto until = std::chrono::steady_clock::now() + limits::kReplyLook;
  while (pending.state.load(std::memory_order_acquire) == Pending::State::waiting &&
         std::chrono::steady_clock::now() < until) {
    UniqueFd given;
    Result<wire::Reply> reply = receive_reply(socket->fd.get(), MSG_DONTWAIT, &given);
    if (reply) {
      take_reply(std::move(*reply), std::move(given), socket);
    } else if (reply.error() != Code::busy) {
      if (reply.error() != Code::peer_gone) give_up(*socket);
      return;
    }
  }
}

void Connection::take_reply(wire::Reply reply, UniqueFd given,
                            const std::shared_ptr<Socket>& from) {
  std::shared_ptr<Pending> pending;
  {
    const std::lock_guard lock(mutex_);
    // A reply of a connection that is lost: its calls have ended, and other calls have their
    // numbers now.
    if (!connected_ || socket_ != from) return;
    const auto found = pending_.find(reply.id);
    // A late reply of a call that timed out.
    if (found == pending_.end()) return;
    pending = std::move(found->second);
    ASSERT(pending != nullptr);
    pending_.erase(found);
    changed_.notify_all();
  }
  if (pending->ended) return pending->ended(&reply);
  pending->reply = std::move(reply);
  pending->given = std::move(given);
  pending->end(Pending::State::answered);
}

void Connection::lose() {
  // First of all: no agent keeps the dead one's memory true.
  for (Follower* const follower : followers_) follower->connection_lost();
  std::vector<std::shared_ptr<Pending>> told;
  {
    const std::lock_guard lock(mutex_);
    ASSERT(connected_ && socket_ != nullptr);
    connected_ = false;
    const bool is_garbled = socket_->is_garbled.load(std::memory_order_relaxed);
    for (auto& [id, pending] : pending_) {
      // What was answered is not here any more: pairs with take_reply().
      ASSERT(pending != nullptr);
      if (pending->ended) {
        told.push_back(std::move(pending));
      } else if (is_garbled) {
        pending->reply.status = Code::bad_message;
        pending->reply.text = "the agent's reply makes no sense to this library";
        pending->end(Pending::State::answered);
      } else {
        pending->end(Pending::State::lost);
      }
    }
    pending_.clear();
    changed_.notify_all();
  }
  for (const std::shared_ptr<Pending>& pending : told) pending->ended(nullptr);
}

// Until a successor serves, or the session is closed.
bool Connection::reconnect() {
  const auto deadline = std::chrono::steady_clock::now() + reconnect_timeout_;
  auto pause = limits::kReconnectPauseMin;
  while (true) {
    if (!dead() && std::chrono::steady_clock::now() >= deadline) set_dead(true);
    {
      std::unique_lock lock(mutex_);
      if (closing_ || socket_path_.empty()) return false;
      changed_.wait_for(lock, pause, [this] { return closing_ || attempt_wanted_; });
      if (closing_) return false;
      attempt_wanted_ = false;
    }
    pause = std::min(pause * 2, limits::kReconnectPauseMax);
    const bool connected = try_to_reconnect();
    const std::lock_guard lock(mutex_);
    ++attempts_;
    changed_.notify_all();
    if (connected) return true;
  }
}

bool Connection::try_to_reconnect() {
  Outcome<UniqueFd> socket = connect_to(socket_path_);
  if (!socket) return false;
  bound_sends(socket->get());
  // What is made or given up from now on waits for the connection: the tables do not change beside
  // what the new agent is told.
  const bool was_dead = dead();
  if (was_dead) set_dead(false);
  const Status status = set_up_again(socket->get());
  if (!status.ok()) {
    // An agent that is on its way down takes connections and ends them; another one follows.
    const bool ended = status.code() == Code::peer_gone;
    log::write(
        ended ? log::Level::debug : log::Level::warning,
        fmt::format("{}: the session cannot be set up again: {}", socket_path_, status.name()));
    if (was_dead) set_dead(true);
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    // stop() has closed the socket that was there, and waits for this thread.
    if (closing_) return false;
    // No call has begun since the connection was lost, and it has not come back by itself.
    ASSERT(!connected_ && pending_.empty());
    const uint64_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
    for (Follower* const follower : followers_) follower->connected_again(epoch);
    socket_ = std::make_shared<Socket>(ParentsFd(std::move(*socket)));
    epoch_.store(epoch, std::memory_order_release);
    connected_ = true;
    changed_.notify_all();
  }
  for (Follower* const follower : followers_) follower->epoch_changed();
  return true;
}

Status Connection::set_up_again(int socket) {
  uint64_t id = 1;
  const auto ask = [&](wire::RequestBody body, const std::vector<int>& descriptors) -> Status {
    const Result<wire::Reply> reply =
        exchange(socket, {id++, std::move(body)}, descriptors, limits::kSetupStepMs);
    return reply ? reply->status : reply.error();
  };
  TRY_ASSIGN(const wire::Reply greeting,
             exchange(socket, {id++, wire::Hello{}}, {}, limits::kSetupStepMs));
  if (greeting.status.code() == Code::wrong_version) {
    log::error("the node speaks no version of this library any more: {}", greeting.text);
  }
  TRY(greeting.status);
  TRY_ASSIGN(const wire::Agreement agreement, greeting_of(greeting));
  features_.store(agreement.features, std::memory_order_relaxed);
  for (Follower* const follower : followers_) TRY(follower->set_up_again(ask));
  const std::lock_guard lock(mutex_);
  ASSERT(!connected_ && id > 1);
  next_call_ = id;
  return Code::ok;
}

}  // namespace penstock::connection
