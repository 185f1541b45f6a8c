// What the tests of the transport share: nodes with a loop and sockets, a service that does as it
// is told, and peers that are no more than a socket.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/disk.h"
#include "penstock/tcp.h"
#include "penstock/testing.h"

namespace penstock::tcp {

inline constexpr NodeId kNear{1};
inline constexpr NodeId kFar{2};
inline constexpr engine::Address kService{kFar, 7};

// A table of nodes that tests change.
class Table final : public Resolver {
 public:
  std::vector<SocketAddress> addresses_of(NodeId node) const override;
  bool was_removed(NodeId node) const override { return removed.contains(node); }
  std::map<NodeId, std::vector<SocketAddress>> nodes;
  std::set<NodeId> removed;
};

NetworkConfig config_of(NodeId node, const Resolver& resolver);

// A node with one loop, which the test's thread polls.
class Node {
 public:
  explicit Node(const NetworkConfig& config, engine::Net* local = nullptr);
  // The node's process is gone: its sockets are closed.
  ~Node();

  SocketAddress listen(const std::string& at = "127.0.0.1:0");
  void stop_listening() { listener_.reset(); }

  engine::Loop& loop() { return loop_; }
  TcpNet& net() { return *net_; }
  TcpNetwork& network() { return network_; }

 private:
  test::ScratchDirectory directory_;
  engine::SeededRandom random_{1};
  std::unique_ptr<disk::DiskDriver> driver_;
  engine::Loop loop_;
  engine::Disk& disk_;
  TcpNetwork network_;
  std::unique_ptr<TcpNet> net_;
  std::unique_ptr<TcpListener> listener_;
};

// Turns of these loops until `holds`; fails the test when that does not come.
void run_until(std::initializer_list<engine::Loop*> loops, const std::function<bool()>& holds);

enum Method : uint16_t {
  kEcho = 1,
  kHold = 2,
  kPlace = 3,   // fills the first exposure with the request's first byte, and answers
  kFetch = 4,   // answers with the CRC-32C of the first exposure's bytes
  kDirect = 5,  // answers with 1 when the first exposure has a copy here, else 0
};

class TestService final : public engine::Service {
 public:
  ~TestService() override;
  void on_call(engine::IncomingCall& call) override;
  void release();

  int calls = 0;
  int transfers_under_way = 0;
  int transfers_failed = 0;
  std::vector<engine::IncomingCall*> held;
  engine::Peer last;  // of the last call

 private:
  struct Transfer;
  void transfer(engine::IncomingCall& call, bool place);
};

struct TestCall : engine::CallOp {
  explicit TestCall(uint16_t wanted, engine::Address address = kService);
  void expose(MutableBytes memory, engine::Access access);
  bool done() const { return completions != 0; }

  std::array<std::byte, 64> request_bytes{};
  std::array<std::byte, 64> response_bytes{};
  int completions = 0;
};

// The end of a connection that a test plays itself, byte by byte. Blocks for no longer than until
// the other side's loop has had its turns.
class RawPeer {
 public:
  struct Frame {
    Header header;
    std::vector<std::byte> message;
    std::vector<std::byte> payload;
  };

  explicit RawPeer(UniqueFd socket);
  static RawPeer connect(const SocketAddress& to);

  void send(Bytes bytes, std::initializer_list<engine::Loop*> loops);
  void send(const Header& header, Bytes message, Bytes payload,
            std::initializer_list<engine::Loop*> loops);
  void send_hello(const Hello& hello, std::initializer_list<engine::Loop*> loops);
  // The next frame; none when the other side has closed the connection.
  std::optional<Frame> receive(std::initializer_list<engine::Loop*> loops);
  // Whether the other side closes the connection, and sends nothing before.
  bool closed(std::initializer_list<engine::Loop*> loops);
  void close() { socket_.reset(); }
  int socket() const { return socket_.get(); }

 private:
  bool receive_exactly(MutableBytes to, std::initializer_list<engine::Loop*> loops);
  UniqueFd socket_;
};

// A port at which a test plays the server.
class RawServer {
 public:
  explicit RawServer(int receive_buffer = 0);
  const SocketAddress& address() const { return address_; }
  // The next connection, whose hello was answered with a welcome.
  RawPeer welcome(std::initializer_list<engine::Loop*> loops);
  RawPeer accept(std::initializer_list<engine::Loop*> loops);

 private:
  UniqueFd socket_;
  SocketAddress address_;
};

Hello hello_of(NodeId caller, engine::Address wanted);

}  // namespace penstock::tcp
