#include "admin.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

namespace penstock::apps {
namespace {

// A request is short. The answer to one may be long: a node has as many sessions as it has.
constexpr size_t kRequestMax = 64 * 1024;
constexpr size_t kAnyLength = SIZE_MAX;
// A request is one short line, and so are most answers; a client that takes longer to write the one
// or to read the others is not a command of ours.
constexpr int kRequestTimeoutMs = 5000;
constexpr int kNoDescriptorPauseMs = 100;
constexpr timeval kSendTimeout{5, 0};
// Far more than people and their scripts ask at once.
constexpr size_t kConnectionsMax = 64;

std::string socket_path(const std::string& directory) {
  return directory + "/" + kAdminSocketName;
}

// UNIX socket addresses hold 107 bytes; longer paths go through the directory's descriptor.
bool make_address(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof address->sun_path) return false;
  std::memcpy(address->sun_path, path.c_str(), path.size() + 1);
  return true;
}

bool send_line(int fd, const Json& line) {
  const std::string text = line.dump() + "\n";
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

// How long a line may be and may take, and a descriptor that ends the wait when it can be read.
struct Patience {
  size_t length = kAnyLength;
  int timeout_ms = -1;
  int stopper = -1;
};

// Reads one line into `line`, keeping what follows it in `rest`.
bool read_line(int fd, const Patience& patience, std::string* rest, std::string* line) {
  size_t seen = 0;
  while (true) {
    const size_t end = rest->find('\n', seen);
    if (end != std::string::npos) {
      *line = rest->substr(0, end);
      rest->erase(0, end + 1);
      return true;
    }
    seen = rest->size();
    if (seen > patience.length) return false;
    pollfd wait[2] = {{fd, POLLIN, 0}, {patience.stopper, POLLIN, 0}};
    const int ready = ::poll(wait, 2, patience.timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || wait[1].revents != 0) return false;
    char buffer[16384];
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    rest->append(buffer, static_cast<size_t>(n));
  }
}

Outcome<UniqueFd> connect_node(const std::string& directory) {
  sockaddr_un address;
  const std::string path = socket_path(directory);
  if (!make_address(path, &address)) {
    return Failure{Code::name_too_long, directory + ": the path is too long for a UNIX socket"};
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    const Status status = Status::from_errno(errno);
    const bool absent = errno == ENOENT || errno == ECONNREFUSED;
    return Failure{status, absent ? directory +
                                        ": no node is running there (start one with "
                                        "'penstock up " +
                                        directory + "')"
                                  : directory + ": cannot reach the node: " + std::strerror(errno)};
  }
  return fd;
}

}  // namespace

Outcome<std::unique_ptr<AdminServer>> AdminServer::start(const std::string& directory,
                                                         Handler handler) {
  const std::string path = socket_path(directory);
  sockaddr_un address;
  if (!make_address(path, &address)) {
    return Failure{Code::name_too_long,
                   directory +
                       ": the path is too long for a UNIX socket (107 bytes with the "
                       "socket's name); choose a shorter one"};
  }
  // The store's lock is held: a socket found here was left by a dead node.
  ::unlink(path.c_str());
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const mode_t mask = ::umask(0177);
  const bool bound = listener && ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address),
                                        sizeof address) == 0;
  ::umask(mask);
  UniqueFd stopper(::eventfd(0, EFD_CLOEXEC));
  if (!bound || ::listen(listener.get(), 16) != 0 || !stopper) {
    return Failure{Status::from_errno(errno), path + ": cannot listen: " + std::strerror(errno)};
  }
  return std::unique_ptr<AdminServer>(
      new AdminServer(path, std::move(listener), std::move(stopper), std::move(handler)));
}

AdminServer::AdminServer(std::string path, UniqueFd listener, UniqueFd stopper, Handler handler)
    : path_(std::move(path)),
      listener_(std::move(listener)),
      stopper_(std::move(stopper)),
      spare_(::fcntl(stopper_.get(), F_DUPFD_CLOEXEC, 0)),
      handler_(std::move(handler)),
      thread_([this] { run(); }) {}

AdminServer::~AdminServer() {
  stopping_ = true;
  const uint64_t one = 1;
  (void)!::write(stopper_.get(), &one, sizeof one);
  thread_.join();
  ::unlink(path_.c_str());
}

void AdminServer::run() {
  while (true) {
    pollfd wait[2] = {{listener_.get(), POLLIN, 0}, {stopper_.get(), POLLIN, 0}};
    if (::poll(wait, 2, -1) < 0 && errno != EINTR) break;
    if (wait[1].revents != 0) break;
    if (wait[0].revents == 0) continue;
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket && errno != EINTR && errno != ECONNABORTED) {
      // The process has no descriptor left: this client gets the one that is kept for it. Clients
      // that come before it is free again wait, and this thread does not ask all the time.
      spare_.reset();
      socket.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket) ::poll(&wait[1], 1, kNoDescriptorPauseMs);
    }
    if (socket) admit(std::move(socket));
    if (!spare_) spare_.reset(::fcntl(stopper_.get(), F_DUPFD_CLOEXEC, 0));
  }
  for (Connection& connection : connections_) connection.thread.join();
}

void AdminServer::admit(UniqueFd socket) {
  connections_.remove_if([](Connection& connection) {
    if (!connection.over) return false;
    connection.thread.join();
    return true;
  });
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  if (connections_.size() >= kConnectionsMax) {
    send_line(socket.get(), {{"error", "the node is busy with other requests; try again"}});
    return;
  }
  Connection& connection = connections_.emplace_back();
  connection.socket = std::move(socket);
  try {
    connection.thread = std::thread([this, &connection] {
      serve(connection.socket.get());
      connection.socket.reset();
      connection.over = true;
    });
  } catch (const std::system_error&) {
    send_line(connection.socket.get(), {{"error", "the node may not start a thread; try again"}});
    connections_.pop_back();
  }
}

void AdminServer::serve(int socket) {
  std::string rest, line;
  const Patience patience{kRequestMax, kRequestTimeoutMs, stopper_.get()};
  if (!read_line(socket, patience, &rest, &line)) return;
  const Json request = parse_json(line);
  Json answer;
  if (!request.is_object()) {
    answer = {{"error", "the request is not a JSON object"}};
  } else {
    answer =
        handler_(request, [&](const Json& say) { return !stopping_ && send_line(socket, say); });
  }
  answer["done"] = true;
  send_line(socket, answer);
}

Outcome<Json> ask_node(const std::string& directory, const Json& request,
                       const std::function<void(const Json&)>& on_line) {
  auto connection = connect_node(directory);
  if (!connection) return connection.error();
  const int fd = connection->get();
  const Failure gone{Code::peer_gone, directory + ": the node ended before it answered"};
  if (!send_line(fd, request)) return gone;
  std::string rest, text;
  // A scrub takes as long as the disk needs; the node's death ends the wait.
  while (read_line(fd, {}, &rest, &text)) {
    Json line = parse_json(text);
    if (!line.is_object()) return gone;
    if (line.contains("error")) {
      return Failure{Code::invalid_argument, line["error"].get<std::string>()};
    }
    if (line.erase("done") > 0) return line;
    if (on_line) on_line(line);
  }
  return gone;
}

bool node_runs(const std::string& directory) {
  return connect_node(directory).has_value();
}

}  // namespace penstock::apps
