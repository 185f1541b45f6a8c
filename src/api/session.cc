#include "session.h"

#include "device_rings.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>

#include "penstock/route.h"

namespace penstock::api {

namespace {

std::chrono::seconds reconnect_timeout() {
  const char* text = std::getenv("PENSTOCK_RECONNECT_SECONDS");
  if (text == nullptr) return limits::kReconnectTimeout;
  const long wanted = std::strtol(text, nullptr, 10);
  return std::clamp(std::chrono::seconds(wanted), std::chrono::seconds(0),
                    limits::kReconnectTimeoutMax);
}

// When calls of this thread end, whatever happens.
thread_local engine::Time calls_end = engine::kNever;

}  // namespace

CallsEndBy::CallsEndBy(engine::Time time)
    : before_(std::exchange(calls_end, std::min(time, calls_end))) {}

CallsEndBy::~CallsEndBy() {
  calls_end = before_;
}

Session::Session()
    : generation_(fork_generation()),
      reconnect_timeout_(reconnect_timeout()),
      device_rings_(std::make_unique<DeviceRings>(*this)),
      access_table_(std::make_unique<std::array<std::atomic<uint8_t>, wire::kFilesMax>>()),
      access_(*access_table_),
      inodes_(std::make_unique<std::atomic<uint64_t>[]>(wire::kFilesMax)) {}

bool Session::forked() const {
  return is_forked(generation_);
}

Outcome<std::unique_ptr<Session>> Session::connect(const std::string& socket_path) {
  TRY_ASSIGN(UniqueFd socket, connect_to(socket_path));
  std::unique_ptr<Session> session(new Session);
  session->socket_path_ = socket_path;
  TRY(session->begin(std::move(socket)));
  return session;
}

Outcome<void> Session::begin(UniqueFd socket) {
  bound_sends(socket.get());
  const Result<wire::Reply> reply =
      exchange(socket.get(), {1, wire::Hello{}}, {}, limits::kSetupStepMs);
  if (!reply) {
    return Failure{reply.error(), reply.error() == Code::peer_gone
                                      ? "connect: the agent refuses the session (it may have too "
                                        "many)"
                                      : "connect: the agent does not answer"};
  }
  if (!reply->status.ok()) return Failure{reply->status, "connect: " + reply->text};
  next_call_ = 2;
  socket_ = std::make_shared<Socket>(Socket{ParentsFd(std::move(socket))});
  connected_ = true;
  monitor_ = std::thread([this] { monitor(); });
  return {};
}

Session::~Session() {
  // The operations in flight end first, so that nobody writes into the caller's memory afterwards.
  device_rings_->destroy_all();
  more_transfers_.clear();
  transfers_.reset();
  for (const auto& [id, region] : regions_) {
    // A kernel may still be in a ring that could not be destroyed: better lost than taken away.
    if (region->device_rings.load(std::memory_order_relaxed) == 0) give_back_memory(*region);
  }
  while (true) {
    Ring* ring = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (!connected_ || rings_.empty()) break;
      ring = rings_.begin()->second.get();
    }
    if (!destroy_ring(ring)) break;
  }
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (socket_ != nullptr) ::shutdown(socket_->fd.get(), SHUT_RDWR);
    changed_.notify_all();
  }
  if (monitor_.joinable()) monitor_.join();
  cache_.stop();
  own_agent_.reset();
}

// ---- calls ----

namespace {

std::chrono::steady_clock::time_point call_deadline() {
  const engine::Time now = engine::system_clock().now();
  const auto left = std::min<engine::Duration>(limits::kCallTimeout, calls_end - now);
  return std::chrono::steady_clock::now() + left;
}

}  // namespace

Session::Answer Session::call_once(const wire::RequestBody& body,
                                   const std::vector<int>& descriptors, bool* lost, uint64_t* epoch,
                                   UniqueFd* given) {
  const auto deadline = call_deadline();
  Pending pending;
  std::unique_lock lock(mutex_);
  const auto may_start = [this] {
    return dead_ || closing_ || (connected_ && pending_.size() < limits::kCallsMax);
  };
  if (!changed_.wait_until(lock, deadline, may_start)) {
    return Failure{Code::timed_out, "the agent does not answer"};
  }
  if (!connected_) return Failure{Code::peer_gone, "the agent is gone"};
  const uint64_t id = next_call_++;
  pending_.emplace(id, &pending);
  *epoch = epoch_.load(std::memory_order_relaxed);
  const std::shared_ptr<Socket> socket = socket_;
  lock.unlock();
  const Status sent = send_request(socket->fd.get(), {id, body}, descriptors);
  lock.lock();
  // A send that fails because of the connection is followed by the monitor's verdict.
  bool in_time = true;
  if (sent.ok() || sent == Code::peer_gone) {
    in_time = pending.wake.wait_until(lock, deadline, [&] { return pending.done || pending.lost; });
  }
  pending_.erase(id);
  changed_.notify_all();
  *lost = pending.lost;
  if (pending.lost) return Failure{Code::peer_gone, "the agent died; it may have happened"};
  if (!in_time) return Failure{Code::timed_out, "the agent does not answer"};
  if (!pending.done) return Failure{sent, fmt::format("the request: {}", sent.name())};
  if (!pending.reply.status.ok()) {
    return Failure{pending.reply.status, std::move(pending.reply.text)};
  }
  if (given != nullptr) *given = std::move(pending.given);
  return std::move(pending.reply.body);
}

Session::Answer Session::call(const wire::RequestBody& body, bool repeatable,
                              const std::vector<int>& descriptors, UniqueFd* given) {
  while (true) {
    bool lost = false;
    uint64_t epoch = 0;
    Answer answer = call_once(body, descriptors, &lost, &epoch, given);
    if (!lost || !repeatable) return answer;
  }
}

Session::Answer Session::establish(
    wire::RequestBody body, std::vector<int> descriptors,
    const std::function<void(const wire::ReplyBody&)>& keep,
    const std::function<wire::RequestBody(const wire::ReplyBody&)>& again) {
  while (true) {
    bool lost = false;
    uint64_t epoch = 0;
    Answer answer = call_once(body, descriptors, &lost, &epoch);
    if (!answer) {
      // Files are opened with effects (creation, truncation) that must not happen twice.
      if (lost && !again) continue;
      return answer;
    }
    {
      const std::lock_guard lock(mutex_);
      if (connected_ && epoch == epoch_.load(std::memory_order_relaxed)) {
        keep(*answer);
        return answer;
      }
    }
    // The connection changed in between: the new agent does not know of it yet.
    if (again) {
      body = again(*answer);
      descriptors.clear();
    }
  }
}

// ---- the monitor ----

void Session::monitor() {
  while (true) {
    std::shared_ptr<Socket> socket;
    {
      const std::lock_guard lock(mutex_);
      socket = socket_;
    }
    receive_all(socket->fd.get());
    connection_lost();
    if (reconnect()) continue;
    {
      const std::lock_guard lock(mutex_);
      dead_.store(true, std::memory_order_release);
      epoch_.fetch_add(1, std::memory_order_release);
      changed_.notify_all();
    }
    new_epoch();
    return;
  }
}

void Session::receive_all(int socket) {
  while (true) {
    UniqueFd given;
    Result<wire::Reply> reply = receive_reply(socket, &given);
    if (!reply) return;
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(reply->id);
    // A late reply of a call that timed out.
    if (found == pending_.end()) continue;
    found->second->reply = std::move(*reply);
    found->second->given = std::move(given);
    found->second->done = true;
    found->second->wake.notify_one();
  }
}

void Session::connection_lost() {
  // First of all: nobody keeps the dead agent's memory true.
  cache_.drop();
  const std::lock_guard lock(mutex_);
  connected_ = false;
  for (const auto& [id, pending] : pending_) {
    pending->lost = !pending->done;
    pending->wake.notify_one();
  }
}

bool Session::reconnect() {
  const auto deadline = std::chrono::steady_clock::now() + reconnect_timeout_;
  auto pause = limits::kReconnectPauseMin;
  while (std::chrono::steady_clock::now() < deadline) {
    {
      std::unique_lock lock(mutex_);
      if (closing_ || socket_path_.empty()) return false;
      if (changed_.wait_for(lock, pause, [this] { return closing_; })) return false;
    }
    pause = std::min(pause * 2, limits::kReconnectPauseMax);
    Outcome<UniqueFd> socket = connect_to(socket_path_);
    if (!socket) continue;
    bound_sends(socket->get());
    std::vector<RingUse> rings;
    const Status status = set_up_again(socket->get(), &rings);
    if (!status.ok()) {
      log::warning("{}: the session cannot be set up again: {}", socket_path_, status.name());
      continue;
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
  return false;
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
    TRY(ask(wire::RegisterRegion{region_id, region->offset, region->size}, {region->fd}));
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

// ---- files ----

Outcome<int32_t> Session::open_file(const std::function<wire::RequestBody(uint32_t)>& request,
                                    const std::vector<int>& descriptors) {
  uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (files_.size() >= wire::kFilesMax) {
      return Failure{Code::busy, fmt::format("open: this session has {} files open, which is the "
                                             "limit",
                                             files_.size())};
    }
    // The number after the last one given, so that a stale number is noticed more often.
    while (files_.contains(next_file_ % wire::kFilesMax)) ++next_file_;
    id = next_file_++ % wire::kFilesMax;
    files_[id] = {};
  }
  const auto keep = [&](const wire::ReplyBody& body) {
    const auto* opened = std::get_if<wire::Opened>(&body);
    if (opened == nullptr) return;
    files_[id] = {opened->token, true};
    inodes_[id].store(opened->inode, std::memory_order_relaxed);
    access_[id].store(static_cast<uint8_t>(opened->access), std::memory_order_relaxed);
  };
  const auto again = [&](const wire::ReplyBody& body) -> wire::RequestBody {
    const auto* opened = std::get_if<wire::Opened>(&body);
    return wire::Reopen{id, opened != nullptr ? opened->token : std::string()};
  };
  const Answer answer = establish(request(id), descriptors, keep, again);
  if (answer) return static_cast<int32_t>(id);
  const std::lock_guard lock(mutex_);
  files_.erase(id);
  return answer.error();
}

Outcome<void> Session::close_file(int32_t file) {
  const uint32_t id = static_cast<uint32_t>(file);
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(id);
    if (file < 0 || found == files_.end() || !found->second.ready) {
      return Failure{Code::bad_handle, "close: the file is not open"};
    }
    found->second.ready = false;
    access_[id].store(0, std::memory_order_relaxed);
  }
  const Answer answer = call(wire::CloseFile{id}, false);
  const std::lock_guard lock(mutex_);
  files_.erase(id);
  if (!answer) return answer.error();
  return {};
}

// ---- regions ----

Outcome<Region*> Session::make_region(uint64_t size) {
  auto region = std::make_unique<Region>();
  TRY_ASSIGN(region->memory, SharedMemory::make("penstock-region", size));
  region->base = region->memory.bytes().data();
  region->size = region->memory.bytes().size();
  region->fd = region->memory.fd();
  return add_region(std::move(region));
}

Outcome<Region*> Session::register_region(int fd, uint64_t offset, void* base, uint64_t size) {
  auto region = std::make_unique<Region>();
  region->owned_fd.reset(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!region->owned_fd) {
    return Failure{Status::from_errno(errno),
                   std::string("register region: ") + std::strerror(errno)};
  }
  region->base = static_cast<std::byte*>(base);
  region->size = size;
  region->offset = offset;
  region->fd = region->owned_fd.get();
  return add_region(std::move(region));
}

// Numbers are given away in the order of use: while one is asked for it is in nobody's table, hence
// the separate set.
Outcome<void> Session::number_region(Region& region) {
  region.session = this;
  const std::lock_guard lock(mutex_);
  while (region.id < wire::kRegionsMax &&
         (regions_.contains(region.id) || regions_in_making_.contains(region.id))) {
    ++region.id;
  }
  if (region.id == wire::kRegionsMax) {
    return Failure{Code::busy, fmt::format("this session has {} regions, which is the limit",
                                           wire::kRegionsMax)};
  }
  regions_in_making_.insert(region.id);
  return {};
}

Outcome<Region*> Session::add_region(std::unique_ptr<Region> region) {
  TRY(number_region(*region));
  Region* const raw = region.get();
  const auto keep = [&](const wire::ReplyBody&) { regions_[raw->id] = std::move(region); };
  const Answer answer =
      establish(wire::RegisterRegion{raw->id, raw->offset, raw->size}, {raw->fd}, keep);
  const std::lock_guard lock(mutex_);
  regions_in_making_.erase(raw->id);
  if (!answer) return answer.error();
  return raw;
}

Outcome<void> Session::release_region(Region* region) {
  std::shared_ptr<Region> owned;
  {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(region->id);
    if (found == regions_.end() || found->second.get() != region) {
      return Failure{Code::invalid_argument, "release region: there is no such region"};
    }
    owned = std::move(found->second);
    regions_.erase(found);
    regions_in_making_.insert(owned->id);
  }
  if (owned->device) {
    release_device_region(*owned);
    const std::lock_guard lock(mutex_);
    regions_in_making_.erase(owned->id);
    return {};
  }
  const Answer answer = call(wire::ReleaseRegion{owned->id}, true);
  const std::lock_guard lock(mutex_);
  regions_in_making_.erase(owned->id);
  // An agent that died or never knew it cannot use the memory either.
  if (answer || answer.error().status == Code::bad_handle ||
      answer.error().status == Code::peer_gone) {
    return {};
  }
  return answer.error();
}

// ---- rings ----

Outcome<Ring*> Session::make_ring(uint32_t entries, uint32_t lanes) {
  const Result<ring::Geometry> geometry = ring::Geometry::make(entries, lanes);
  if (!geometry) {
    return Failure{geometry.error(), "create ring: 1 to 32768 entries and 1 to 64 lanes"};
  }
  uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    while (id < wire::kRingsMax && (rings_.contains(id) || rings_in_making_.contains(id))) ++id;
    if (id == wire::kRingsMax) {
      return Failure{Code::busy,
                     fmt::format("this session has {} rings, which is the limit", wire::kRingsMax)};
    }
    rings_in_making_.insert(id);
  }
  auto ring = std::make_unique<Ring>(*this, id, *geometry);
  Ring* const raw = ring.get();
  Outcome<std::shared_ptr<RingMemory>> memory = ring->make_memory();
  Answer answer = memory ? Answer(wire::ReplyBody{}) : Answer(memory.error());
  if (memory) {
    const MutableBytes bytes = (*memory)->shared.bytes();
    const auto keep = [&](const wire::ReplyBody&) {
      ring->use(*memory, epoch_.load(std::memory_order_relaxed));
      rings_[id] = std::move(ring);
    };
    answer = establish(wire::CreateRing{id, bytes.size()},
                       {(*memory)->shared.fd(), (*memory)->wake.get()}, keep);
  }
  const std::lock_guard lock(mutex_);
  rings_in_making_.erase(id);
  if (!answer) return answer.error();
  cache_.want();
  return raw;
}

Outcome<void> Session::destroy_ring(Ring* ring) {
  std::unique_ptr<Ring> owned;
  {
    const std::lock_guard lock(mutex_);
    const auto found = rings_.find(ring->id());
    if (found == rings_.end() || found->second.get() != ring) {
      return Failure{Code::invalid_argument, "destroy ring: there is no such ring"};
    }
    owned = std::move(found->second);
    rings_.erase(found);
    rings_in_making_.insert(owned->id());
  }
  if (transfers_ != nullptr) owned->end_transfers();
  const Answer answer = call(wire::DestroyRing{owned->id()}, true);
  const std::lock_guard lock(mutex_);
  rings_in_making_.erase(owned->id());
  if (answer || answer.error().status == Code::bad_handle ||
      answer.error().status == Code::peer_gone) {
    return {};
  }
  return answer.error();
}

}  // namespace penstock::api
