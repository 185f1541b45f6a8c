#include "penstock/session_server.h"

#include "fair_workers.h"
#include "limits.h"
#include "outbox.h"
#include "session_socket.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace penstock::session_server {
namespace {

// What an epoll event is about: a kind in the top byte, and a number.
enum Kind : uint64_t { kListener = 1, kWake = 2, kSession = 3, kShard = 4, kProcess = 5 };
constexpr int kKindShift = 56;
constexpr uint64_t tag_of(Kind kind, uint64_t number) {
  return kind << kKindShift | number;
}

Status epoll_add(int epoll, int fd, uint32_t events, uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return Code::ok;
  return Status::from_errno(errno);
}

// Addresses of UNIX sockets hold 107 bytes; a longer path is reached through its directory's
// descriptor, which must stay open until the address was used.
std::string short_path(const std::string& path, UniqueFd* directory) {
  if (path.size() < sizeof(sockaddr_un::sun_path)) return path;
  const size_t slash = path.rfind('/');
  directory->reset(::open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return fmt::format("/proc/self/fd/{}{}", directory->get(), path.substr(slash));
}

}  // namespace

SessionServer::SessionServer(sessions::SessionNode& node, SessionServerConfig config)
    : node_(node), config_(std::move(config)) {}

Outcome<std::unique_ptr<SessionServer>> SessionServer::start(sessions::SessionNode& node,
                                                             SessionServerConfig config) {
  ASSERT(node.accounts != nullptr && node.files != nullptr && !node.shards.empty());
  std::unique_ptr<SessionServer> server(new SessionServer(node, std::move(config)));
  const std::string& path = server->config_.socket_path;
  server->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  server->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->epoll_ || !server->wake_) {
    return Failure{Status::from_errno(errno), "sessions: no file descriptors left"};
  }
  TRY_ASSIGN(server->listener_,
             path.empty() ? Outcome<UniqueFd>(UniqueFd()) : server->listen_on(path));
  Status added = epoll_add(server->epoll_.get(), server->wake_.get(), EPOLLIN, tag_of(kWake, 0));
  if (added.ok() && server->listener_) {
    added = epoll_add(server->epoll_.get(), server->listener_.get(), EPOLLIN, tag_of(kListener, 0));
  }
  if (!added.ok()) return Failure{added, "sessions: cannot wait for sockets"};
  server->keep_spares();
  server->workers_ = std::make_unique<FairWorkers>();
  server->thread_ = std::thread([raw = server.get()] { raw->run(); });
  return server;
}

Outcome<UniqueFd> SessionServer::listen_on(const std::string& path) {
  const auto failed = [&path](const char* what) {
    const int error = errno;
    return Failure{Status::from_errno(error),
                   fmt::format("{}: cannot {}: {}", path, what, std::strerror(error))};
  };
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed("make a socket");
  UniqueFd directory;
  const std::string name = short_path(path, &directory);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed("replace the socket");
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return failed("bind the socket");
  }
  // Every user may connect: what a session may do depends on the user at its other end.
  if (::chmod(path.c_str(), 0666) != 0) return failed("set the mode of the socket");
  if (::listen(socket.get(), SOMAXCONN) != 0) return failed("listen");
  return socket;
}

SessionServer::~SessionServer() {
  stop();
}

void SessionServer::stop() {
  {
    std::unique_lock lock(mutex_);
    if (stopped_) return;
    stopping_ = true;
    for (auto& [id, connection] : connections_) begin_end(id, connection);
    // Each end waits for the I/O in flight, which the disk bounds.
    ended_.wait(lock, [this] { return connections_.empty(); });
    stopped_ = true;
  }
  ::eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
  workers_.reset();
  if (listener_) ::unlink(config_.socket_path.c_str());
  listener_.reset();
}

Outcome<UniqueFd> SessionServer::connect_local() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return Failure{Status::from_errno(errno), "cannot make a pair of sockets"};
  }
  UniqueFd theirs(pair[0]);
  add(UniqueFd(pair[1]));
  return theirs;
}

void SessionServer::run() {
  epoll_event events[64];
  while (true) {
    const int count = ::epoll_wait(epoll_.get(), events, 64, patience_ms());
    // In a pause, too, ends of sessions are seen first: they make room.
    if (accepting_is_paused_ && count == 0) pause_accepting(false);
    for (int i = 0; i < count; ++i) {
      const uint64_t number = events[i].data.u64 & ((uint64_t{1} << kKindShift) - 1);
      switch (events[i].data.u64 >> kKindShift) {
        case kListener:
          accept_all();
          break;
        case kWake:
          end_asked();
          break;
        case kSession:
          on_socket(number, events[i].events);
          break;
        case kProcess:
          process_ended(number);
          break;
        case kShard:
          node_.shards[number]->parker->unpark();
          break;
        default:
          break;
      }
    }
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    if (mute_ > 0) end_long_mute();
  }
}

int SessionServer::patience_ms() {
  if (accepting_is_paused_) return static_cast<int>(limits::kAcceptPause.count());
  const std::lock_guard lock(mutex_);
  return mute_ > 0 ? limits::kMuteLookMs : -1;
}

void SessionServer::accept_all() {
  while (true) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) {
      add(std::move(socket));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) break;
    // The connections that wait would be reported again and again.
    const Status why = Status::from_errno(errno);
    node_.log.warning("accept", fmt::format("sessions have to wait: {}", why.name()));
    if (!accept_with_spares()) return pause_accepting(true);
  }
  keep_spares();
}

bool SessionServer::accept_with_spares() {
  if (spares_.empty()) return false;
  spares_.clear();
  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return false;
  // Users with a share have used it up between them: the spare ones are for those without one.
  const Result<sessions::Peer> peer = peer_of(socket.get());
  if (peer && (peer->credentials.uid == 0 || peer->credentials.uid == ::geteuid())) {
    add(std::move(socket));
  } else {
    socket.reset();
  }
  keep_spares();
  return true;
}

void SessionServer::keep_spares() {
  while (spares_.size() < limits::kSpareDescriptors) {
    UniqueFd spare(::fcntl(wake_.get(), F_DUPFD_CLOEXEC, 0));
    if (!spare) return;
    spares_.push_back(std::move(spare));
  }
}

void SessionServer::pause_accepting(bool pause) {
  if (!listener_ || accepting_is_paused_ == pause) return;
  if (!pause) keep_spares();
  epoll_event event{};
  event.events = pause ? 0u : EPOLLIN;
  event.data.u64 = tag_of(kListener, 0);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
  accepting_is_paused_ = pause;
}

std::shared_ptr<resources::Account> SessionServer::account_for(uint32_t uid) {
  auto account = node_.accounts->open(uid);
  const bool has_room =
      account->charge(resources::Resource::sessions, 1).ok() &&
      account->charge(resources::Resource::heap_bytes, limits::kSessionHeapBytes).ok() &&
      account->charge(resources::Resource::descriptors, limits::kSessionDescriptors).ok();
  if (has_room) return account;
  // The socket closes, which the application sees as a refusal.
  node_.log.warning(fmt::format("refused {}", uid),
                    fmt::format("a session of user {} is refused: there are too many", uid));
  return nullptr;
}

void SessionServer::add(UniqueFd socket) {
  Result<sessions::Peer> peer = peer_of(socket.get());
  if (!peer) return;
  auto account = account_for(peer->credentials.uid);
  if (account == nullptr) return;
  Result<UniqueFd> process = watch_process(peer->pid);
  if (!process) return;
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  const uint64_t id = next_id_++;
  const int fd = socket.get();
  Connection& connection = connections_[id];
  connection.socket = std::move(socket);
  connection.outbox = std::make_unique<Outbox>(fd);
  connection.session =
      std::make_shared<sessions::Session>(node_, *this, id, std::move(*peer), std::move(account));
  connection.process = std::move(*process);
  Status added = epoll_add(epoll_.get(), fd, EPOLLIN | EPOLLRDHUP, tag_of(kSession, id));
  if (added.ok() && connection.process) {
    added = epoll_add(epoll_.get(), connection.process.get(), EPOLLIN, tag_of(kProcess, id));
  }
  if (!added.ok()) connections_.erase(id);
}

// Its children may hold the socket for as long as they like: it does not hang up then.
void SessionServer::process_ended(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(id);
  if (found != connections_.end()) begin_end(id, found->second);
}

void SessionServer::on_socket(uint64_t id, uint32_t events) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.ending) return;
  Connection& connection = found->second;
  // The application is gone: no reply to what is still in the socket would be read.
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) return begin_end(id, connection);
  if ((events & EPOLLOUT) != 0) {
    if (!connection.outbox->flush().ok()) return begin_end(id, connection);
    look_at_outbox(id, connection);
    dispatch(id, connection);
  }
  if ((events & (EPOLLIN | EPOLLRDHUP)) != 0) read_from(id, connection);
}

// One that takes none of its replies for so long is believed never to.
void SessionServer::end_long_mute() {
  const engine::Time now = engine::system_clock().now();
  for (auto& [id, connection] : connections_) {
    if (connection.ending || connection.mute_since == engine::kNever) continue;
    if (now - connection.mute_since >= config_.reply_timeout) begin_end(id, connection);
  }
}

void SessionServer::look_at_outbox(uint64_t id, Connection& connection) {
  const bool was_mute = connection.mute_since != engine::kNever;
  const bool is_mute = !connection.ending && !connection.outbox->empty();
  if (is_mute == was_mute) return;
  connection.mute_since = is_mute ? engine::system_clock().now() : engine::kNever;
  if (is_mute) {
    // The first one makes the control thread look at the time.
    if (mute_++ == 0) ::eventfd_write(wake_.get(), 1);
  } else {
    --mute_;
  }
  if (!connection.ending) wait_for(id, connection);
}

void SessionServer::wait_for(uint64_t id, const Connection& connection) {
  epoll_event event{};
  event.events = connection.reading ? EPOLLIN | EPOLLRDHUP : 0u;
  if (connection.mute_since != engine::kNever) event.events |= EPOLLOUT;
  event.data.u64 = tag_of(kSession, id);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &event);
}

// One message: while there are more, the socket is reported again. So other sessions have their
// turn, and an application that sends one at a time does not wait for a second look at an empty
// socket.
void SessionServer::read_from(uint64_t id, Connection& connection) {
  if (!connection.reading) return;
  sessions::Session& session = *connection.session;
  Result<Datagram> datagram = receive(connection.socket.get(), session.account());
  if (!datagram) {
    if (datagram.error() != Code::busy) begin_end(id, connection);
    return;
  }
  Result<sessions::Message> message =
      sessions::message_of(datagram->bytes, std::move(datagram->descriptors));
  if (!message) {
    if (message.error() == Code::busy) {
      const uint32_t uid = session.peer().credentials.uid;
      node_.log.warning(fmt::format("descriptors {}", uid),
                        fmt::format("a session of user {} ends: too many descriptors", uid));
    }
    return begin_end(id, connection);
  }
  connection.waiting_bytes += message->bytes;
  connection.waiting.push_back(std::move(*message));
  dispatch(id, connection);
  ASSERT(connection.waiting.size() <= limits::kRequestsWaitingMax);
  if (connection.waiting.size() >= limits::kRequestsWaitingMax ||
      connection.waiting_bytes >= limits::kRequestBytesWaitingMax) {
    set_reading(id, connection, false);
  }
}

void SessionServer::set_reading(uint64_t id, Connection& connection, bool reading) {
  if (connection.reading == reading) return;
  connection.reading = reading;
  wait_for(id, connection);
}

void SessionServer::dispatch(uint64_t id, Connection& connection) {
  while (!connection.ending && connection.mute_since == engine::kNever &&
         !connection.waiting.empty() && connection.running < limits::kRequestsAtOnceMax) {
    ++connection.running;
    auto message = std::make_shared<sessions::Message>(std::move(connection.waiting.front()));
    connection.waiting.pop_front();
    ASSERT(connection.waiting_bytes >= message->bytes);
    connection.waiting_bytes -= message->bytes;
    const uint32_t uid = connection.session->peer().credentials.uid;
    // The outbox lives until the end of the session, which waits for its requests.
    workers_->submit_request(uid, [this, id, outbox = connection.outbox.get(),
                                   session = connection.session, message]() mutable {
      sessions::ReplyPacket reply = session->answer(std::move(*message));
      session.reset();
      const bool ends = reply.ends_session;
      const Status posted = outbox->post(std::move(reply));
      if (!posted.ok() || ends) end_session(id);
      request_done(id);
    });
  }
  if (connection.waiting.size() < limits::kRequestsWaitingMax / 2 &&
      connection.waiting_bytes < limits::kRequestBytesWaitingMax / 2) {
    set_reading(id, connection, true);
  }
}

void SessionServer::request_done(uint64_t id) {
  const std::lock_guard lock(mutex_);
  Connection& connection = connections_.at(id);
  ASSERT(connection.running > 0);
  --connection.running;
  look_at_outbox(id, connection);
  if (!connection.ending) return dispatch(id, connection);
  if (connection.running == 0) {
    workers_->submit_end([this, id] { finished(id); });
  }
}

void SessionServer::end_session(uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    asked_to_end_.push_back(id);
  }
  ::eventfd_write(wake_.get(), 1);
}

void SessionServer::end_asked() {
  eventfd_t value = 0;
  ::eventfd_read(wake_.get(), &value);
  const std::lock_guard lock(mutex_);
  for (const uint64_t id : asked_to_end_) {
    const auto found = connections_.find(id);
    if (found != connections_.end()) begin_end(id, found->second);
  }
  asked_to_end_.clear();
}

void SessionServer::begin_end(uint64_t id, Connection& connection) {
  if (connection.ending) return;
  connection.ending = true;
  look_at_outbox(id, connection);
  connection.waiting.clear();
  const int socket = connection.socket.get();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
  connection.process.reset();
  connection.session->withdraw_all();
  // The application sees the end now, not when the last I/O is done.
  ::shutdown(socket, SHUT_RDWR);
  if (connection.running == 0) {
    workers_->submit_end([this, id] { finished(id); });
  }
}

void SessionServer::finished(uint64_t id) {
  std::shared_ptr<sessions::Session> session;
  {
    const std::lock_guard lock(mutex_);
    const Connection& connection = connections_.at(id);
    ASSERT(connection.ending && connection.running == 0 && connection.waiting.empty());
    session = connection.session;
  }
  session->finish();
  session.reset();
  const std::lock_guard lock(mutex_);
  connections_.erase(id);
  ended_.notify_all();
}

std::vector<sessions::SessionStatus> SessionServer::sessions() {
  std::vector<std::shared_ptr<sessions::Session>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, connection] : connections_) all.push_back(connection.session);
  }
  std::vector<sessions::SessionStatus> out;
  for (const auto& session : all) out.push_back(session->status());
  return out;
}

std::shared_ptr<sessions::Session> SessionServer::find(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.session;
}

Status SessionServer::watch(int eventfd, uint32_t shard) {
  // Edge triggered: every write is an event of its own, and nothing needs to be read from a
  // descriptor that the application could drain or make blocking.
  return epoll_add(epoll_.get(), eventfd, EPOLLIN | EPOLLET, tag_of(kShard, shard));
}

void SessionServer::forget(int eventfd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, eventfd, nullptr);
}

}  // namespace penstock::session_server
