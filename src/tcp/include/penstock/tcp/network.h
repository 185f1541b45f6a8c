// What the loops of a process share to reach other nodes over TCP: who this node is, where the
// others are, and which loop serves what.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/engine.h"
#include "penstock/tcp/greeting.h"
#include "penstock/tls.h"

struct sockaddr;

namespace penstock::tcp {

// Where a node can be reached: a numeric IPv4 or IPv6 address and a port.
class SocketAddress {
 public:
  // "127.0.0.1:9180" or "[::1]:9180"; invalid_argument for anything else, names among it.
  static Result<SocketAddress> parse(std::string_view text);
  // Of a socket of this process.
  static Result<SocketAddress> of_socket(int socket);
  // Of the other side of one that is connected.
  static Result<SocketAddress> of_peer(int socket);

  std::string text() const;
  int family() const;
  // A sockaddr of length() bytes.
  const void* data() const { return bytes_.data(); }
  uint32_t length() const { return length_; }

 private:
  static Result<SocketAddress> told_by(int (*ask)(int, sockaddr*, uint32_t*), int socket);

  alignas(8) std::array<std::byte, 28> bytes_{};  // of a sockaddr_in6, the larger one
  uint32_t length_ = 0;
};

// Knows the nodes. Thread safe; answers from memory, as loops ask it, and from one call to the next
// the answer may change.
class Resolver {
 public:
  virtual ~Resolver() = default;
  // Where to try, the best first; empty: there is no such node now.
  virtual std::vector<SocketAddress> addresses_of(NodeId node) const = 0;
  // Whether the node was removed for good: its certificate counts no more.
  virtual bool was_removed(NodeId) const { return false; }
};

// For how long to wait, and for what.
struct Patience {
  engine::Duration connect = limits::kConnectTime;
  engine::Duration greeting = limits::kGreetingTime;
  engine::Duration ping = limits::kPingAfter;
  engine::Duration silence = limits::kSilenceMax;
  engine::Duration stall = limits::kStallMax;
  engine::Duration idle = limits::kIdleMax;
};

struct NetworkConfig {
  Identity identity;
  const Resolver* resolver = nullptr;      // outlives the network
  uint32_t calls_max = limits::kCallsMax;  // in progress on a connection to this node
  // The one service that guests may call: how they join. Others tell them not_proven.
  std::optional<uint32_t> open_to_guests{};
  // The one that nodes may call that were removed: there they hear of it.
  std::optional<uint32_t> open_to_removed{};
  // By which this node proves who it is, and believes others; null: all travels in the clear, and
  // nothing is proven.
  std::shared_ptr<const tls::Credentials> credentials{};
  // Records are made by the kernel where it can, else by the process.
  bool kernel_tls = true;
  // Threads that then help loops with large payloads; none: as many as the processors bear.
  std::optional<uint32_t> record_helpers{};
  // The role that a node must have to serve that, a bit of engine::Role; 0: any. Null: any for all.
  // Nobody is called who could not prove it.
  uint8_t (*role_to_serve)(uint32_t service) = nullptr;
  // A call to whoever refuses this node, or proves to be somebody else, ends with access_denied: as
  // it would again. False: with peer_gone, as that may be another in a moment.
  bool tells_refusals = false;
  Patience patience;
};

namespace internal {
class Handshaker;
class Switchboard;
}  // namespace internal

// Thread safe. Outlives the TcpNets and the listener.
class TcpNetwork {
 public:
  explicit TcpNetwork(const NetworkConfig& config);
  ~TcpNetwork();
  TcpNetwork(const TcpNetwork&) = delete;
  TcpNetwork& operator=(const TcpNetwork&) = delete;

  // For handshakes from now on. There were some before: a process is sealed as it began, or not.
  void renew(std::shared_ptr<const tls::Credentials> credentials);

  internal::Switchboard& switchboard() { return *board_; }

 private:
  std::unique_ptr<internal::Switchboard> board_;
};

}  // namespace penstock::tcp
