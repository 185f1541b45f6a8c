#include "bare_socket.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "penstock/tcp.h"

namespace penstock::bench {
namespace {

using tcp::SocketAddress;

constexpr int kPatienceMs = 3'000;
constexpr size_t kSecretBytes = 32;

// Addresses of this machine with a port, those of other machines' networks first.
std::vector<std::string> own_addresses(uint16_t port) {
  std::vector<std::string> outside, inside;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
        (one->ifa_flags & IFF_UP) == 0)
      continue;
    const auto* const in = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    const auto bytes = std::bit_cast<std::array<uint8_t, 4>>(in->sin_addr.s_addr);
    auto& list = (one->ifa_flags & IFF_LOOPBACK) != 0 ? inside : outside;
    list.push_back(fmt::format("{}.{}.{}.{}:{}", bytes[0], bytes[1], bytes[2], bytes[3], port));
  }
  ::freeifaddrs(all);
  outside.insert(outside.end(), inside.begin(), inside.end());
  return outside;
}

bool is_ready(int socket, short events, int patience_ms = kPatienceMs) {
  pollfd wanted{socket, events, 0};
  return ::poll(&wanted, 1, patience_ms) == 1;
}

void make_spinning(int socket) {
  const int one = 1;
  (void)!::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  (void)!::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
}

// Not valid: nobody answers there.
UniqueFd connected_to(const std::string& address) {
  const auto parsed = SocketAddress::parse(address);
  if (!parsed) return {};
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), static_cast<const sockaddr*>(parsed->data()), parsed->length()) !=
      0) {
    int error = errno;
    socklen_t length = sizeof error;
    if (error != EINPROGRESS || !is_ready(socket.get(), POLLOUT) ||
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0)
      return {};
  }
  make_spinning(socket.get());
  return socket;
}

Json words_of_listener(uint16_t port, const std::string& secret) {
  return {{"addresses", own_addresses(port)}, {"secret", secret}};
}

std::string new_secret() {
  std::array<uint8_t, kSecretBytes / 2> bytes{};
  (void)!::getrandom(bytes.data(), bytes.size(), 0);
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

struct BareSocket::Order {
  enum Kind : uint64_t { ping, stream, end } kind;
  uint64_t calls;
  uint64_t bytes;
};

Outcome<std::unique_ptr<BareSocket>> BareSocket::connect(job::Member& member, uint32_t first,
                                                         uint32_t second) {
  const bool listens = member.place().rank == second;
  const std::vector<uint32_t> both = {std::min(first, second), std::max(first, second)};
  UniqueFd door;
  const std::string secret = new_secret();
  std::string text;
  if (listens) {
    door = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t length = sizeof any;
    auto* const address = reinterpret_cast<sockaddr*>(&any);
    if (::bind(door.get(), address, length) != 0 || ::listen(door.get(), 8) != 0 ||
        ::getsockname(door.get(), address, &length) != 0)
      return Failure{Status::from_errno(errno), "a bare socket cannot listen"};
    text = words_of_listener(ntohs(any.sin_port), secret).dump();
  }
  TRY_ASSIGN(const auto told, tell_others(member, "bare socket", both, text));
  if (!listens) {
    const Json words = parse_json(told[first < second ? 1 : 0]);
    if (!words.is_object()) return Failure{Code::bad_message, "the other PE names no addresses"};
    for (const Json& each : words.value("addresses", Json::array())) {
      std::unique_ptr<BareSocket> socket(
          new BareSocket(connected_to(each.is_string() ? each.get<std::string>() : "")));
      if (!socket->socket_) continue;
      const std::string known = text_at(words, "secret");
      // An answer: it was the one that is meant.
      std::byte answer{};
      if (socket->send_all(std::as_bytes(std::span(known))).ok() &&
          is_ready(socket->socket_.get(), POLLIN) && socket->receive_all({&answer, 1}).ok())
        return socket;
    }
    return Failure{Code::peer_gone, "no bare socket reaches the other node"};
  }
  while (is_ready(door.get(), POLLIN)) {
    std::unique_ptr<BareSocket> socket(
        new BareSocket(UniqueFd(::accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC))));
    if (!socket->socket_) continue;
    make_spinning(socket->socket_.get());
    std::string said(secret.size(), '\0');
    if (!is_ready(socket->socket_.get(), POLLIN) ||
        !socket->receive_all(std::as_writable_bytes(std::span(said))).ok() || said != secret)
      continue;
    const std::byte answer{1};
    if (const Status sent = socket->send_all({&answer, 1}); !sent.ok())
      return Failure{sent, "the bare socket has ended"};
    return socket;
  }
  return Failure{Code::peer_gone, "nobody came to the bare socket"};
}

Status BareSocket::send_all(Bytes bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
    if (sent == 0 || (sent < 0 && errno != EAGAIN && errno != EINTR)) return Code::peer_gone;
    if (sent < 0) ::sched_yield();
  }
  return {};
}

Status BareSocket::receive_all(MutableBytes bytes) {
  while (!bytes.empty()) {
    const auto got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) bytes = bytes.subspan(static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return Code::peer_gone;
    if (got < 0) ::sched_yield();
  }
  return {};
}

Status BareSocket::pings(uint64_t calls, uint64_t bytes) {
  const Order order{Order::ping, calls, bytes};
  TRY(send_all(std::as_bytes(std::span(&order, 1))));
  buffer_.resize(bytes);
  for (uint64_t i = 0; i < calls; ++i) {
    TRY(send_all(buffer_));
    TRY(receive_all(buffer_));
  }
  return {};
}

Status BareSocket::streams(uint64_t calls, uint64_t bytes) {
  const Order order{Order::stream, calls, bytes};
  TRY(send_all(std::as_bytes(std::span(&order, 1))));
  buffer_.resize(bytes);
  for (uint64_t i = 0; i < calls; ++i) TRY(send_all(buffer_));
  std::byte all{};
  return receive_all({&all, 1});
}

Status BareSocket::end() {
  const Order order{Order::end, 0, 0};
  return send_all(std::as_bytes(std::span(&order, 1)));
}

Status BareSocket::serve() {
  constexpr std::chrono::milliseconds kUntilAsked = kMeasureTime;
  while (true) {
    // Asleep, as the other one may measure something else.
    if (!is_ready(socket_.get(), POLLIN, static_cast<int>(kUntilAsked.count())))
      return Code::timed_out;
    Order order{};
    TRY(receive_all(std::as_writable_bytes(std::span(&order, 1))));
    if (order.kind == Order::end) return {};
    buffer_.resize(order.bytes);
    for (uint64_t i = 0; i < order.calls; ++i) {
      TRY(receive_all(buffer_));
      if (order.kind == Order::ping) TRY(send_all(buffer_));
    }
    const std::byte all{1};
    if (order.kind == Order::stream) TRY(send_all({&all, 1}));
  }
}

}  // namespace penstock::bench
