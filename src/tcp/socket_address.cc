#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>

#include "penstock/tcp/network.h"

namespace penstock::tcp {
namespace {

template <class Address>
Result<uint32_t> copy(const Address& address, std::span<std::byte> to) {
  ASSERT(sizeof address <= to.size());
  std::memcpy(to.data(), &address, sizeof address);
  return static_cast<uint32_t>(sizeof address);
}

Result<uint16_t> parse_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return Code::invalid_argument;
  return port;
}

}  // namespace

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Code::invalid_argument;
  TRY_ASSIGN(const uint16_t port, parse_port(text.substr(colon + 1)));
  std::string_view host = text.substr(0, colon);
  SocketAddress result;
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    if (::inet_pton(AF_INET6, std::string(host).c_str(), &address.sin6_addr) != 1) {
      return Code::invalid_argument;
    }
    TRY_ASSIGN(result.length_, copy(address, result.bytes_));
    return result;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, std::string(host).c_str(), &address.sin_addr) != 1) {
    return Code::invalid_argument;
  }
  TRY_ASSIGN(result.length_, copy(address, result.bytes_));
  return result;
}

Result<SocketAddress> SocketAddress::told_by(int (*ask)(int, sockaddr*, socklen_t*), int socket) {
  SocketAddress result;
  socklen_t length = sizeof result.bytes_;
  if (ask(socket, reinterpret_cast<sockaddr*>(result.bytes_.data()), &length) != 0) {
    return Status::from_errno(errno);
  }
  if (length > result.bytes_.size()) return Code::invalid_argument;
  result.length_ = length;
  return result;
}

Result<SocketAddress> SocketAddress::of_socket(int socket) {
  return told_by(::getsockname, socket);
}

Result<SocketAddress> SocketAddress::of_peer(int socket) {
  return told_by(::getpeername, socket);
}

int SocketAddress::family() const {
  sa_family_t family = AF_UNSPEC;
  static_assert(offsetof(sockaddr, sa_family) == 0);
  std::memcpy(&family, bytes_.data(), sizeof family);
  return family;
}

std::string SocketAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (family() == AF_INET6) {
    sockaddr_in6 address;
    std::memcpy(&address, bytes_.data(), sizeof address);
    ::inet_ntop(AF_INET6, &address.sin6_addr, host.data(), host.size());
    return fmt::format("[{}]:{}", host.data(), ntohs(address.sin6_port));
  }
  sockaddr_in address;
  std::memcpy(&address, bytes_.data(), sizeof address);
  ::inet_ntop(AF_INET, &address.sin_addr, host.data(), host.size());
  return fmt::format("{}:{}", host.data(), ntohs(address.sin_port));
}

}  // namespace penstock::tcp
