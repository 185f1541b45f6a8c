#include "sockets.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace penstock::job {
namespace {

using std::chrono::milliseconds;

constexpr int kBacklog = 4096;
constexpr milliseconds kConnectAgain{20};
// For one address; the next one may be on a network that both are on.
constexpr milliseconds kConnectPatience{2000};

struct LocalName {
  sockaddr_un address{};
  socklen_t length = 0;
};

LocalName name_of(const std::string& name) {
  LocalName local;
  local.address.sun_family = AF_UNIX;
  ASSERT(name.size() + 1 < sizeof local.address.sun_path);
  // A zero first: no file.
  std::memcpy(local.address.sun_path + 1, name.data(), name.size());
  local.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return local;
}

Failure socket_failure(const std::string& what) {
  return {Status::from_errno(errno), fmt::format("{}: {}", what, std::strerror(errno))};
}

struct TcpName {
  sockaddr_storage address{};
  socklen_t length = 0;
};

TcpName name_of(const HostAddress& host, uint16_t port) {
  TcpName name;
  if (host.family == 4) {
    auto* at = reinterpret_cast<sockaddr_in*>(&name.address);
    at->sin_family = AF_INET;
    at->sin_port = htons(port);
    std::memcpy(&at->sin_addr, host.bytes.data(), sizeof at->sin_addr);
    name.length = sizeof *at;
  } else {
    auto* at = reinterpret_cast<sockaddr_in6*>(&name.address);
    at->sin6_family = AF_INET6;
    at->sin6_port = htons(port);
    std::memcpy(&at->sin6_addr, host.bytes.data(), sizeof at->sin6_addr);
    name.length = sizeof *at;
  }
  return name;
}

// The error of the attempt in *error.
UniqueFd connect_once(const HostAddress& host, uint16_t port, milliseconds patience, int* error) {
  const TcpName name = name_of(host, port);
  UniqueFd socket(
      ::socket(name.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  *error = errno;
  if (!socket) return {};
  *error = 0;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.length) == 0) {
    return socket;
  }
  *error = errno;
  if (errno != EINPROGRESS) return {};
  pollfd ready{socket.get(), POLLOUT, 0};
  *error = ETIMEDOUT;
  if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1) return {};
  socklen_t length = sizeof *error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, error, &length);
  return *error == 0 ? std::move(socket) : UniqueFd();
}

std::string text_of(const HostAddress& host, uint16_t port) {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(host.family == 4 ? AF_INET : AF_INET6, host.bytes.data(), text, sizeof text);
  return host.family == 4 ? fmt::format("{}:{}", text, port) : fmt::format("[{}]:{}", text, port);
}

}  // namespace

Outcome<UniqueFd> listen_locally(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return socket_failure("a socket for the job");
  const LocalName local = name_of(name);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&local.address), local.length) != 0) {
    if (errno == EADDRINUSE) return Failure{Code::in_use, name + ": another process has it"};
    return socket_failure("a socket for the job");
  }
  if (::listen(socket.get(), kBacklog) != 0) return socket_failure("a socket for the job");
  return socket;
}

Result<UniqueFd> try_connect_locally(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return Status::from_errno(errno);
  const LocalName local = name_of(name);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&local.address), local.length) !=
      0) {
    // Nobody yet, or too many at once.
    if (errno == ECONNREFUSED || errno == EAGAIN) return Code::busy;
    return Status::from_errno(errno);
  }
  if (!is_trusted(socket.get())) return Code::access_denied;
  return socket;
}

Outcome<UniqueFd> connect_locally(const std::string& name, Time deadline) {
  while (true) {
    Result<UniqueFd> socket = try_connect_locally(name);
    if (socket) return std::move(*socket);
    if (socket.error().code() == Code::access_denied) {
      return Failure{Code::access_denied, "the socket of this job's name is another user's"};
    }
    if (socket.error().code() != Code::busy) {
      return Failure{socket.error(), "a socket for the job: " + std::string(socket.error().name())};
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Failure{Code::timed_out, "the job's first rank did not come in time"};
    }
    std::this_thread::sleep_for(kConnectAgain);
  }
}

bool is_trusted(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  int domain = 0;
  socklen_t domain_length = sizeof domain;
  if (::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &domain_length) != 0) return false;
  if (domain != AF_UNIX) return true;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

bool is_interface_of(std::string_view names, std::string_view interface) {
  if (names.empty()) return true;
  const bool are_meant = names[0] != '^';
  if (!are_meant) names.remove_prefix(1);
  const bool are_whole = !names.empty() && names[0] == '=';
  if (are_whole) names.remove_prefix(1);
  while (!names.empty()) {
    const std::string_view one = names.substr(0, names.find(','));
    names.remove_prefix(std::min(one.size() + 1, names.size()));
    if (one.empty()) continue;
    if (are_whole ? interface == one : interface.starts_with(one)) return are_meant;
  }
  return !are_meant;
}

std::vector<HostAddress> own_addresses(const std::string& interfaces) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  // The rank of each: networks before loopback, and the shorter kind of address first.
  std::vector<std::pair<int, HostAddress>> found;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    if (!is_interface_of(interfaces, each->ifa_name)) continue;
    const int last = (each->ifa_flags & IFF_LOOPBACK) != 0 ? 2 : 0;
    HostAddress host;
    if (each->ifa_addr->sa_family == AF_INET) {
      host.family = 4;
      std::memcpy(host.bytes.data(), &reinterpret_cast<sockaddr_in*>(each->ifa_addr)->sin_addr, 4);
      found.emplace_back(last, host);
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      const auto* at = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
      // Of one link only: it means another one elsewhere.
      if (IN6_IS_ADDR_LINKLOCAL(&at->sin6_addr)) continue;
      host.family = 6;
      std::memcpy(host.bytes.data(), &at->sin6_addr, 16);
      found.emplace_back(last + 1, host);
    }
  }
  ::freeifaddrs(all);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<HostAddress> addresses;
  for (const auto& [order, host] : found) addresses.push_back(host);
  return addresses;
}

Outcome<UniqueFd> listen_anywhere(uint16_t* port) {
  for (const int family : {AF_INET6, AF_INET}) {
    UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
    if (!socket) continue;  // a machine without IPv6
    const int no = 0;
    if (family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    sockaddr_storage any{};
    any.ss_family = static_cast<sa_family_t>(family);
    socklen_t length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), length) != 0) continue;
    if (::listen(socket.get(), kBacklog) != 0) continue;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &length);
    *port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&any)->sin6_port
                                     : reinterpret_cast<sockaddr_in*>(&any)->sin_port);
    return socket;
  }
  return socket_failure("a port for the job");
}

Outcome<UniqueFd> connect_to(const std::vector<HostAddress>& addresses, uint16_t port,
                             Time deadline, const std::string& whom) {
  std::string tried;
  while (true) {
    tried.clear();
    for (const HostAddress& host : addresses) {
      const auto left =
          std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
      const milliseconds patience = std::clamp(left, milliseconds(1), kConnectPatience);
      int error = 0;
      UniqueFd socket = connect_once(host, port, patience, &error);
      if (socket) {
        set_up_stream(socket.get());
        return socket;
      }
      tried += fmt::format("{}{}: {}", tried.empty() ? "" : ", ", text_of(host, port),
                           std::strerror(error));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Failure{Code::timed_out, whom + " is not reached: " + tried};
    }
    std::this_thread::sleep_for(kConnectAgain);
  }
}

std::optional<HostAddress> parse_address(const std::string& text) {
  HostAddress host;
  if (::inet_pton(AF_INET, text.c_str(), host.bytes.data()) == 1) {
    host.family = 4;
  } else if (::inet_pton(AF_INET6, text.c_str(), host.bytes.data()) == 1) {
    host.family = 6;
  } else {
    return std::nullopt;
  }
  return host;
}

bool is_loopback(const HostAddress& host) {
  if (host.family == 4) return host.bytes[0] == std::byte{127};
  return std::memcmp(host.bytes.data(), &in6addr_loopback, host.bytes.size()) == 0;
}

void set_up_stream(int socket) {
  const auto set = [&](int level, int option, int value) {
    (void)::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 3);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 9000);
}

Status fill_with_random(MutableBytes bytes) {
  const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
  return got == static_cast<ssize_t>(bytes.size()) ? Status() : Status(Code::io_error);
}

std::string as_hex(Bytes bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace penstock::job
