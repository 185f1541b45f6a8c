#include "penstock/cluster/listening.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>

namespace penstock::cluster {
namespace {

const sockaddr* raw(const tcp::SocketAddress& address) {
  return static_cast<const sockaddr*>(address.data());
}

std::string host_of(const tcp::SocketAddress& address) {
  const std::string text = address.text();
  return text.substr(0, text.rfind(':'));
}

// Nothing is sent: the kernel chooses a way, and with it an address.
Outcome<std::string> host_towards(const tcp::SocketAddress& controller) {
  const UniqueFd socket(::socket(controller.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), raw(controller), controller.length()) != 0) {
    const int error = errno;
    return Failure{Status::from_errno(error), fmt::format("{}: there is no way there: {}",
                                                          controller.text(), std::strerror(error))};
  }
  const auto own = tcp::SocketAddress::of_socket(socket.get());
  if (own) return host_of(*own);
  return Failure{own.error(), controller.text() + ": this node's own address is not known"};
}

// With the port that it has then. As a listener does: what earlier connections left there does not
// keep it.
Result<tcp::SocketAddress> try_port(const tcp::SocketAddress& at) {
  const UniqueFd socket(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      ::bind(socket.get(), raw(at), at.length()) != 0) {
    return Status::from_errno(errno);
  }
  return tcp::SocketAddress::of_socket(socket.get());
}

// "[::1]" is ::1 to all but people who add a port to it.
std::string bare(std::string host) {
  if (!host.starts_with('[')) return host;
  ASSERT(host.ends_with(']'));
  return host.substr(1, host.size() - 2);
}

bool has_address(const ifaddrs& interface, const tcp::SocketAddress& address) {
  if (interface.ifa_addr == nullptr || interface.ifa_addr->sa_family != address.family()) {
    return false;
  }
  if (address.family() == AF_INET) {
    const auto* own = reinterpret_cast<const sockaddr_in*>(interface.ifa_addr);
    const auto* asked = static_cast<const sockaddr_in*>(address.data());
    return own->sin_addr.s_addr == asked->sin_addr.s_addr;
  }
  const auto* own = reinterpret_cast<const sockaddr_in6*>(interface.ifa_addr);
  const auto* asked = static_cast<const sockaddr_in6*>(address.data());
  return std::memcmp(&own->sin6_addr, &asked->sin6_addr, sizeof own->sin6_addr) == 0;
}

// Of the card that has the address. The kernel says -1 where there is one NUMA node only.
uint16_t numa_of(const tcp::SocketAddress& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return 0;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (!has_address(*one, address)) continue;
    const auto text =
        read_kept_file(fmt::format("/sys/class/net/{}/device/numa_node", one->ifa_name));
    uint64_t node = 0;
    const bool is_known = text && parse_number(text->substr(0, text->find('\n')), &node);
    return is_known && node <= UINT16_MAX ? static_cast<uint16_t>(node) : uint16_t{0};
  }
  return 0;
}

}  // namespace

Outcome<std::string> choose_listen(const tcp::SocketAddress& controller) {
  TRY_ASSIGN(const std::string host, host_towards(controller));
  const std::string text = controller.text();
  for (const std::string& port : {text.substr(text.rfind(':') + 1), std::string("0")}) {
    const auto wanted = tcp::SocketAddress::parse(host + ":" + port);
    ASSERT(wanted);
    const auto free = try_port(*wanted);
    if (free) return free->text();
  }
  return Failure{Code::busy, host + ": no port is free there"};
}

Outcome<ListenAt> parse_listen(std::string_view text) {
  const auto refused = [&](const char* why) {
    return Failure{Code::invalid_argument, fmt::format("'{}' {}", text, why)};
  };
  const size_t comma = std::min(text.find(','), text.size());
  const auto address = tcp::SocketAddress::parse(text.substr(0, comma));
  const std::string written = address ? address->text() : "";
  if (!address || written.ends_with(":0")) {
    return refused(
        "is no address to listen at: give a numeric one and a port, such as 127.0.0.1:9180");
  }
  if (written.starts_with("0.0.0.0:") || written.starts_with("[::]:")) {
    return refused("is an address at which others cannot reach it: give that of one network card");
  }
  ListenAt at{*address, 0, std::nullopt};
  for (size_t begin = comma; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin + 1), text.size());
    const std::string_view word = text.substr(begin + 1, end - begin - 1);
    const size_t equals = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, equals);
    uint64_t value = 0;
    const bool is_number =
        equals < word.size() && parse_number(std::string(word.substr(equals + 1)), &value);
    if (!is_number || value >= kStandbyRail || (key != "rail" && key != "numa")) {
      return refused("has something else behind the address than ,rail=N and ,numa=N");
    }
    if (key == "rail") {
      at.rail = static_cast<uint16_t>(value);
    } else {
      at.numa = static_cast<uint16_t>(value);
    }
    begin = end;
  }
  return at;
}

controller::CardAddress card_of(const ListenAt& at) {
  const std::string text = at.address.text();
  const size_t colon = text.rfind(':');
  uint64_t port = 0;
  const bool has_port = colon != std::string::npos && parse_number(text.substr(colon + 1), &port);
  ASSERT(has_port && port > 0 && port <= UINT16_MAX);
  return {.host = bare(text.substr(0, colon)),
          .port = static_cast<uint16_t>(port),
          .rail = at.rail,
          .numa = at.numa ? *at.numa : numa_of(at.address)};
}

Outcome<void> check_free(const tcp::SocketAddress& address) {
  const auto free = try_port(address);
  if (free) return {};
  const bool is_taken = free.error().detail() == EADDRINUSE;
  return Failure{free.error(),
                 fmt::format("{}: cannot listen there: {}", address.text(),
                             is_taken ? "another process does" : free.error().name())};
}

}  // namespace penstock::cluster
