// Two nodes of one process that are connected over loopback, and calls from one to the other.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "penstock/disk.h"
#include "penstock/loopback/figures.h"
#include "penstock/probe.h"
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

// A loop with a net.
struct Node {
  explicit Node(const tcp::NetworkConfig& config) : network(config) {}
  // Once. not_supported: the kernel has not what the net needs.
  Outcome<void> start();
  void close();

  engine::SeededRandom random{1};
  std::unique_ptr<disk::DiskDriver> driver;
  std::unique_ptr<engine::Loop> loop;
  engine::Disk* disk = nullptr;
  tcp::TcpNetwork network;
  std::unique_ptr<tcp::TcpNet> net;
};

enum class Wire : uint8_t { plain, sealed };

// Of a cluster that is made with its first node, and lasts as long as the process.
std::shared_ptr<const tls::Credentials> credentials_of(NodeId node);
tcp::NetworkConfig config_of(NodeId node, Wire wire, const tcp::Resolver& resolver);

// A node that others reach, with a thread of its own.
class Server {
 public:
  explicit Server(const tcp::NetworkConfig& config) : node_(config) {}
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Once; then services, which outlive it; then run().
  Outcome<void> listen();
  void serve(engine::Address address, engine::Service& service);
  void run();

  const tcp::SocketAddress& address() const { return listener_->address(); }
  engine::Loop& loop() { return *node_.loop; }
  // While it runs: of its loop.
  pthread_t thread() { return thread_.native_handle(); }

 private:
  Node node_;
  std::unique_ptr<tcp::TcpListener> listener_;
  std::vector<engine::Address> served_;
  std::thread thread_;
};

// The near side's loop is the thread's that starts them, the far one has a thread of its own.
class Nodes {
 public:
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
  // As nodes of a cluster measure one another.
  Outcome<probe::Figures> probe(const probe::Workload& workload);

 private:
  explicit Nodes(Wire wire);
  Outcome<void> begin();

  OneAddress resolver_;
  Source source_;
  std::unique_ptr<probe::Service> probes_;
  Node near_;
  Server far_;
};

}  // namespace penstock::loopback
