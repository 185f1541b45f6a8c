#include "far_address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::symm {
namespace {

// Of a PE that other nodes reach by many networks the first are enough.
constexpr size_t kHostsMax = 8;
constexpr size_t kAddressBytes = 17;
// PEs of a job begin at the same time.
constexpr int kPendingConnections = 4096;

job::HostAddress loopback() {
  job::HostAddress host;
  host.family = 4;
  const uint32_t address = htonl(INADDR_LOOPBACK);
  std::memcpy(host.bytes.data(), &address, sizeof address);
  return host;
}

bool is_loopback(const job::HostAddress& host) {
  if (host.family == 4) return host.bytes[0] == std::byte{127};
  in6_addr address;
  std::memcpy(&address, host.bytes.data(), sizeof address);
  return IN6_IS_ADDR_LOOPBACK(&address);
}

Failure no_port() {
  return {Status::from_errno(errno),
          fmt::format("no port for PEs of other nodes: {}", std::strerror(errno))};
}

uint16_t port_of(int socket) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                         : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
}

// Listens at the port that it finds; at all addresses where `host` is null.
Outcome<FarListener> listen_at(int family, const job::HostAddress* host) {
  FarListener made;
  made.socket.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!made.socket) return no_port();
  const int no = 0;
  if (family == AF_INET6)
    ::setsockopt(made.socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  SocketName name;
  name.address.ss_family = static_cast<sa_family_t>(family);
  name.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (host != nullptr) name = name_of(*host, 0);
  if (::bind(made.socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.length) !=
          0 ||
      ::listen(made.socket.get(), kPendingConnections) != 0) {
    return no_port();
  }
  made.address.port = port_of(made.socket.get());
  return made;
}

}  // namespace

std::vector<std::byte> encode(const FarAddress& address) {
  ASSERT(address.hosts.size() <= kHostsMax);
  std::vector<std::byte> bytes(3);
  std::memcpy(bytes.data(), &address.port, 2);
  bytes[2] = static_cast<std::byte>(address.hosts.size());
  for (const job::HostAddress& host : address.hosts) {
    bytes.push_back(static_cast<std::byte>(host.family));
    bytes.insert(bytes.end(), host.bytes.begin(), host.bytes.end());
  }
  return bytes;
}

std::optional<FarAddress> decode_far_address(Bytes bytes) {
  if (bytes.size() < 3) return std::nullopt;
  FarAddress address;
  std::memcpy(&address.port, bytes.data(), 2);
  const auto count = std::to_integer<size_t>(bytes[2]);
  if (count == 0 || count > kHostsMax || bytes.size() != 3 + count * kAddressBytes)
    return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    const Bytes from = bytes.subspan(3 + i * kAddressBytes, kAddressBytes);
    job::HostAddress host;
    host.family = std::to_integer<uint8_t>(from[0]);
    if (host.family != 4 && host.family != 6) return std::nullopt;
    std::memcpy(host.bytes.data(), from.data() + 1, host.bytes.size());
    address.hosts.push_back(host);
  }
  return address;
}

Outcome<FarListener> listen_for_pes(bool is_one_machine, const std::string& interface) {
  if (is_one_machine) {
    const job::HostAddress host = loopback();
    TRY_ASSIGN(FarListener made, listen_at(AF_INET, &host));
    made.address.hosts = {host};
    return made;
  }
  std::vector<job::HostAddress> hosts = job::own_addresses(interface);
  std::erase_if(hosts, is_loopback);
  if (hosts.empty()) {
    return Failure{Code::not_found,
                   interface.empty()
                       ? "this node has no address by which others reach it"
                       : fmt::format("no interface that '{}' names has an address", interface)};
  }
  if (hosts.size() > kHostsMax) hosts.resize(kHostsMax);
  auto made = listen_at(AF_INET6, nullptr);
  if (!made) made = listen_at(AF_INET, nullptr);  // a machine without IPv6
  if (!made) return made;
  made->address.hosts = std::move(hosts);
  return made;
}

SocketName name_of(const job::HostAddress& host, uint16_t port) {
  SocketName name;
  if (host.family == 4) {
    auto* const at = reinterpret_cast<sockaddr_in*>(&name.address);
    at->sin_family = AF_INET;
    at->sin_port = htons(port);
    std::memcpy(&at->sin_addr, host.bytes.data(), sizeof at->sin_addr);
    name.length = sizeof *at;
  } else {
    auto* const at = reinterpret_cast<sockaddr_in6*>(&name.address);
    at->sin6_family = AF_INET6;
    at->sin6_port = htons(port);
    std::memcpy(&at->sin6_addr, host.bytes.data(), sizeof at->sin6_addr);
    name.length = sizeof *at;
  }
  return name;
}

std::string text_of(const FarAddress& address) {
  std::string all;
  for (const job::HostAddress& host : address.hosts) {
    char text[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(host.family == 4 ? AF_INET : AF_INET6, host.bytes.data(), text, sizeof text);
    all += fmt::format("{}{}", all.empty() ? "" : ", ", text);
  }
  return fmt::format("{}, port {}", all, address.port);
}

uint64_t machine_name() {
  std::array<char, 64> text{};
  const UniqueFd boot(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const ssize_t got = boot ? ::read(boot.get(), text.data(), text.size()) : 0;
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  const uint32_t of_boot = crc32c({bytes, static_cast<size_t>(std::max<ssize_t>(got, 0))});
  struct stat network {};
  (void)::stat("/proc/self/ns/net", &network);
  return (uint64_t{of_boot} << 32) ^ network.st_ino;
}

}  // namespace penstock::symm
