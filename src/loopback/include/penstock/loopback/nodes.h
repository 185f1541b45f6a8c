// Two nodes of one process that are connected over loopback, and calls from one to the other.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "penstock/disk.h"
#include "penstock/loopback/figures.h"
#include "penstock/probe.h"
#include "penstock/rails.h"
#include "penstock/tcp.h"

namespace penstock::loopback {

// Places what it has into the first exposure.
class Source final : public engine::Service {
 public:
  Source() : bytes_(kMiB, std::byte{7}) {}
  void on_call(engine::IncomingCall& call) override;

 private:
  struct Transfer : engine::TransferOp {
    Source* source = nullptr;
    Transfer* next = nullptr;
  };
  std::vector<std::byte> bytes_;
  std::vector<std::unique_ptr<Transfer>> all_;
  Transfer* free_ = nullptr;
};

class OneAddress final : public tcp::Resolver {
 public:
  std::vector<tcp::SocketAddress> addresses_of(NodeId) const override { return {address}; }
  tcp::SocketAddress address;
};

// A loop with a net, and the thread that runs it.
struct Node {
  explicit Node(const tcp::NetworkConfig& config) : self(config.identity.node), network(config) {}
  // Once. not_supported: the kernel has not what the net needs. With devices, which outlive it,
  // calls go by them when a queue pair has come about.
  Outcome<void> start(rails::Devices* devices = nullptr);
  // From now on the net belongs to the thread.
  void run() {
    thread = std::thread([this] { loop->run(); });
  }
  // Ends the thread; the net is the calling one's again.
  void stop();
  void close();
  engine::Net& calls() {
    if (rails != nullptr) return *rails;
    return *net;
  }

  const NodeId self;
  engine::SeededRandom random{1};
  std::unique_ptr<disk::DiskDriver> driver;
  std::unique_ptr<engine::Loop> loop;
  engine::Disk* disk = nullptr;
  tcp::TcpNetwork network;
  std::unique_ptr<tcp::TcpNet> net;
  // With RDMA: what calls go by, and the other side's queue pairs come from.
  std::unique_ptr<rails::Introductions> introductions;
  std::unique_ptr<rails::RailNet> rails;
  std::thread thread;
};

enum class Wire : uint8_t {
  plain,
  sealed,
  verbs,  // RDMA, by a device of this machine that reaches itself, or two that reach each other
};

// Of a cluster that is made with its first node, and lasts as long as the process.
std::shared_ptr<const tls::Credentials> credentials_of(NodeId node);
tcp::NetworkConfig config_of(NodeId node, Wire wire, const tcp::Resolver& resolver);

// A node that others reach.
class Server {
 public:
  explicit Server(const tcp::NetworkConfig& config) : node_(config) {}
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Once; then services, which outlive it; then run(). Devices as of Node::start().
  Outcome<void> listen(rails::Devices* devices = nullptr);
  void serve(engine::Address address, engine::Service& service);
  void run() { node_.run(); }

  const tcp::SocketAddress& address() const { return listener_->address(); }
  engine::Loop& loop() { return *node_.loop; }
  // While it runs: of its loop.
  pthread_t thread() { return node_.thread.native_handle(); }

 private:
  Node node_;
  std::unique_ptr<tcp::TcpListener> listener_;
  std::vector<engine::Address> served_;
};

// The thread that starts them waits while they are measured; they have threads of their own, which
// answer also while others are measured.
class Nodes {
 public:
  // Waits for queue pairs, where they are wanted; not_supported, with the reason: none come about.
  static Outcome<std::unique_ptr<Nodes>> start(Wire wire);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  struct Reads {
    size_t bytes = 0;
    int depth = 1;
    bool verify = false;  // with CRC-32C of what came
  };
  // Reads for so long, `depth` at once.
  Figures read(const Reads& reads, std::chrono::milliseconds duration);
  // As nodes of a cluster measure one another. peer_gone: calls did not go by RDMA to the end.
  Outcome<probe::Figures> probe(const probe::Workload& workload);

 private:
  explicit Nodes(Wire wire);
  Outcome<void> begin();
  Outcome<void> await_queue_pairs();
  bool calls_go_by_rdma();

  OneAddress resolver_;
  const std::unique_ptr<rails::Devices> devices_;  // null: without RDMA
  Source source_;
  std::unique_ptr<probe::Service> probes_;
  Node near_;
  Server far_;
};

}  // namespace penstock::loopback
