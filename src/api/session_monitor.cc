// The thread that receives what the agent replies, and finds its successor when it died.
#include "session.h"

#include <algorithm>
#include <sys/socket.h>

namespace penstock::api {

void Session::monitor() {
  while (true) {
    std::shared_ptr<Socket> socket;
    {
      const std::lock_guard lock(mutex_);
      socket = socket_;
    }
    receive_all(socket);
    connection_lost();
    if (reconnect()) continue;
    set_dead(true);
    return;
  }
}

// Calls and operations end at once from now on; or they wait for a connection again.
void Session::set_dead(bool dead) {
  {
    const std::lock_guard lock(mutex_);
    dead_.store(dead, std::memory_order_release);
    if (!dead) return;
    epoch_.fetch_add(1, std::memory_order_release);
    changed_.notify_all();
  }
  new_epoch();
}

void Session::receive_all(const std::shared_ptr<Socket>& socket) {
  while (true) {
    UniqueFd given;
    Result<wire::Reply> reply = receive_reply(socket->fd.get(), 0, &given);
    if (!reply) return;
    take_reply(std::move(*reply), std::move(given), socket);
  }
}

void Session::look_for_reply(const std::shared_ptr<Socket>& socket, const Pending& pending) {
  const auto until = std::chrono::steady_clock::now() + limits::kReplyLook;
  while (pending.state.load(std::memory_order_acquire) == Pending::State::waiting &&
         std::chrono::steady_clock::now() < until) {
    UniqueFd given;
    Result<wire::Reply> reply = receive_reply(socket->fd.get(), MSG_DONTWAIT, &given);
    if (reply) {
      take_reply(std::move(*reply), std::move(given), socket);
    } else if (reply.error() != Code::busy) {
      // The monitor sees the end, of a connection that speaks nonsense, too.
      ::shutdown(socket->fd.get(), SHUT_RDWR);
      return;
    }
  }
}

void Session::take_reply(wire::Reply reply, UniqueFd given, const std::shared_ptr<Socket>& from) {
  std::shared_ptr<Pending> pending;
  {
    const std::lock_guard lock(mutex_);
    // Of a connection that is lost: its calls have ended, and their numbers are others' now.
    if (!connected_ || socket_ != from) return;
    const auto found = pending_.find(reply.id);
    // A late reply of a call that timed out.
    if (found == pending_.end()) return;
    pending = std::move(found->second);
    pending_.erase(found);
    if (pending->closes) files_.erase(*pending->closes);
    changed_.notify_all();
  }
  if (pending->closes && !reply.status.ok()) {
    log::warning("file {}: {}", *pending->closes, reply.text);
  }
  pending->reply = std::move(reply);
  pending->given = std::move(given);
  pending->end(Pending::State::answered);
}

void Session::connection_lost() {
  // First of all: nobody keeps the dead agent's memory true.
  cache_.drop();
  const std::lock_guard lock(mutex_);
  connected_ = false;
  for (const auto& [id, pending] : pending_) {
    if (pending->closes) files_.erase(*pending->closes);
    pending->end(Pending::State::lost);
  }
  pending_.clear();
  changed_.notify_all();
}

// Until somebody comes, or the session is closed.
bool Session::reconnect() {
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

bool Session::try_to_reconnect() {
  Outcome<UniqueFd> socket = connect_to(socket_path_);
  if (!socket) return false;
  bound_sends(socket->get());
  // What is made or given up from now on waits for the connection: the tables do not change beside
  // what the new agent is told.
  const bool was_dead = dead();
  if (was_dead) set_dead(false);
  std::vector<RingUse> rings;
  const Status status = set_up_again(socket->get(), &rings);
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
    // A ring that was destroyed meanwhile is not served by anybody's lanes.
    for (RingUse& use : rings) {
      const auto found = rings_.find(use.ring);
      if (found != rings_.end()) found->second->use(std::move(use.memory), epoch_ + 1);
    }
    socket_ = std::make_shared<Socket>(Socket{ParentsFd(std::move(*socket))});
    epoch_.fetch_add(1, std::memory_order_release);
    connected_ = true;
    changed_.notify_all();
  }
  cache_.want();
  new_epoch();
  return true;
}

Status Session::set_up_again(int socket, std::vector<RingUse>* rings) {
  uint64_t id = 1;
  const auto ask = [&](wire::RequestBody body, const std::vector<int>& descriptors) -> Status {
    const Result<wire::Reply> reply =
        exchange(socket, {id++, std::move(body)}, descriptors, limits::kSetupStepMs);
    return reply ? reply->status : reply.error();
  };
  TRY(ask(wire::Hello{}, {}));
  // Nobody adds to or takes from the tables while there is no connection.
  std::unique_lock lock(mutex_);
  for (const auto& [region_id, region] : regions_) {
    if (region->device) continue;
    UniqueFd again;
    if (!region->path.empty()) again = open_again(*region);
    const int fd = region->path.empty() ? region->fd : again.get();
    if (fd < 0) {
      // Its operations end with EINVAL; nothing else suffers.
      log::warning("{}: not the memory of a region any more", region->path);
      continue;
    }
    const Status known = ask(wire::RegisterRegion{region_id, region->offset, region->size}, {fd});
    if (known == Code::peer_gone || known == Code::timed_out) return known;
    // Its operations end with EINVAL; the others are served.
    if (!known.ok()) log::warning("region {} cannot be made again: {}", region_id, known.name());
  }
  for (const auto& [file_id, file] : files_) {
    if (!file.ready) continue;
    const Status opened = ask(wire::Reopen{file_id, file.token}, {});
    // A file that was removed meanwhile: its operations end with EBADF.
    if (opened == Code::peer_gone || opened == Code::timed_out) return opened;
    if (!opened.ok()) log::warning("file {} cannot be opened again: {}", file_id, opened.name());
  }
  for (const auto& [ring_id, ring] : rings_) {
    Outcome<std::shared_ptr<RingMemory>> memory = ring->make_memory();
    if (!memory) return memory.error().status;
    const MutableBytes bytes = (*memory)->shared.bytes();
    TRY(ask(wire::CreateRing{ring_id, bytes.size()},
            {(*memory)->shared.fd(), (*memory)->wake.get()}));
    (*memory)->shared.close_fd();
    rings->push_back({ring_id, std::move(*memory)});
  }
  TRY(publish_again(ask));
  next_call_ = id;
  return Code::ok;
}

void Session::new_epoch() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, ring] : rings_) ring->rouse_all();
}

}  // namespace penstock::api
