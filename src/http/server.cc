#include "limits.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netdb.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "penstock/base.h"
#include "penstock/http.h"

namespace penstock::http {
namespace {

constexpr int kBacklog = 64;

Failure cannot_listen(const std::string& where, int error) {
  const char* hint = "";
  if (error == EADDRINUSE) {
    hint =
        " (another program listens there: choose another port with --metrics, or stop it; 'ss "
        "-ltnp' "
        "names it)";
  }
  if (error == EACCES) hint = " (ports below 1024 are root's: choose a higher one with --metrics)";
  if (error == EADDRNOTAVAIL) hint = " (this machine has no such address: see 'ip address')";
  return {Status::from_errno(error),
          fmt::format("listen on {}: {}{}", where, std::strerror(error), hint)};
}

Outcome<UniqueFd> listen_on_path(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) return cannot_listen(path, ENAMETOOLONG);
  std::memcpy(name.sun_path, path.data(), path.size());
  const auto* const where = reinterpret_cast<const sockaddr*>(&name);
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) == 0) {
    if (!S_ISSOCK(facts.st_mode)) return cannot_listen(path, EEXIST);
    const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(probe.get(), where, sizeof name) == 0 || errno == EAGAIN) {
      return cannot_listen(path, EADDRINUSE);
    }
    ::unlink(path.c_str());
  }
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // No other user can connect before the mode says so: nothing listens yet.
  if (!socket || ::bind(socket.get(), where, sizeof name) != 0 ||
      ::chmod(path.c_str(), 0660) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    return cannot_listen(path, errno);
  }
  return socket;
}

std::string text_of(const Address& address, uint16_t port) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}:{}", is_ipv6 ? "[" + address.host + "]" : address.host, port);
}

Outcome<UniqueFd> listen_on_port(const Address& address) {
  const std::string where = text_of(address, address.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return Failure{Code::invalid_argument,
                   fmt::format("listen on {}: {}", where, ::gai_strerror(error))};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> freed(found, ::freeaddrinfo);
  UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A port whose last connections are still fading is free.
  const int yes = 1;
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return cannot_listen(where, errno);
  }
  return socket;
}

uint16_t port_of(int socket) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &length) != 0) return 0;
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

class MicroServer final : public Server {
 public:
  MicroServer(Address address, Handler handler)
      : address_(std::move(address)), handler_(std::move(handler)) {}
  ~MicroServer() override {
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
    if (is_bound_ && !address_.path.empty()) ::unlink(address_.path.c_str());
  }

  Outcome<void> start();
  std::string address() const override {
    return address_.path.empty() ? text_of(address_, address_.port) : address_.path;
  }

 private:
  static MHD_Result answer(void* self, MHD_Connection* connection, const char* path,
                           const char* method, const char* version, const char* data,
                           size_t* data_length, void** state);
  static MHD_Result send(MHD_Connection* connection, const Response& response, bool allow);
  Response respond(std::string_view method, const std::string& path) const;

  Address address_;
  const Handler handler_;
  MHD_Daemon* daemon_ = nullptr;
  bool is_bound_ = false;
};

Outcome<void> MicroServer::start() {
  TRY_ASSIGN(UniqueFd socket,
             address_.path.empty() ? listen_on_port(address_) : listen_on_path(address_.path));
  is_bound_ = true;
  if (address_.path.empty()) address_.port = port_of(socket.get());
  // Its thread takes none of this process's signals.
  const SignalsBlocked scope;
  daemon_ = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ITC, 0, nullptr, nullptr, &answer,
      this, MHD_OPTION_LISTEN_SOCKET, socket.get(), MHD_OPTION_CONNECTION_LIMIT,
      limits::kConnectionsMax, MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits::kConnectionBytesMax,
      MHD_OPTION_CONNECTION_TIMEOUT, limits::kIdleSecondsMax, MHD_OPTION_END);
  if (daemon_ == nullptr) {
    return Failure{Code::busy, fmt::format("listen on {}: the HTTP server cannot be started: {}",
                                           address(), std::strerror(errno))};
  }
  (void)socket.release();  // the daemon's from now on
  return {};
}

Response MicroServer::respond(std::string_view method, const std::string& path) const {
  if (method == MHD_HTTP_METHOD_GET || method == MHD_HTTP_METHOD_HEAD) return handler_(path);
  return {.status = MHD_HTTP_METHOD_NOT_ALLOWED, .body = "only GET and HEAD\n"};
}

MHD_Result MicroServer::answer(void* self, MHD_Connection* connection, const char* path,
                               const char* method, const char*, const char*, size_t* data_length,
                               void** state) {
  // The first call tells of the headers; the answer may be queued from the second on, unless a body
  // comes, which is thrown away.
  static int seen;
  if (*state == nullptr) {
    *state = &seen;
    return MHD_YES;
  }
  if (*data_length != 0) {
    *data_length = 0;
    return MHD_YES;
  }
  const Response response = static_cast<MicroServer*>(self)->respond(method, path);
  return send(connection, response, response.status == MHD_HTTP_METHOD_NOT_ALLOWED);
}

MHD_Result MicroServer::send(MHD_Connection* connection, const Response& response, bool allow) {
  MHD_Response* const message = MHD_create_response_from_buffer(
      response.body.size(), const_cast<char*>(response.body.data()), MHD_RESPMEM_MUST_COPY);
  if (message == nullptr) return MHD_NO;
  MHD_add_response_header(message, MHD_HTTP_HEADER_CONTENT_TYPE, response.content_type.c_str());
  if (allow) MHD_add_response_header(message, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(response.status), message);
  MHD_destroy_response(message);
  return queued;
}

}  // namespace

Outcome<std::unique_ptr<Server>> Server::start(const Address& address, Handler handler) {
  auto server = std::make_unique<MicroServer>(address, std::move(handler));
  TRY(server->start());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace penstock::http
