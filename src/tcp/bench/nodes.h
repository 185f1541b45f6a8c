// Two nodes of one process that are connected over loopback, and reads from one by the other.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "penstock/disk.h"
#include "penstock/tcp.h"

namespace penstock::tcp::bench {

inline engine::Time now() {
  return engine::system_clock().now();
}
inline double seconds_since(engine::Time start) {
  return std::chrono::duration<double>(now() - start).count();
}

// Of a thread, in seconds.
double processor_time(pthread_t thread);

struct Figures {
  double rate = 0;   // per second
  double calls = 0;  // system calls for each, of both sides: to submit, and to wait
  // Of processors, in microseconds for each: of the side that asks, and of the one that serves.
  double near_us = 0;
  double far_us = 0;
};

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

class OneAddress final : public Resolver {
 public:
  std::vector<SocketAddress> addresses_of(NodeId) const override { return {address}; }
  SocketAddress address;
};

struct Node {
  explicit Node(const NetworkConfig& config) : network(config) {}

  engine::SeededRandom random{1};
  std::unique_ptr<disk::DiskDriver> driver = std::move(*disk::DiskDriver::create({.root = "/tmp"}));
  engine::Loop loop{engine::system_clock(), random, driver->parker()};
  engine::Disk& disk = driver->attach(loop);
  TcpNetwork network;
  std::unique_ptr<TcpNet> net = std::move(*TcpNet::create(network, loop, driver->parker()));
};

enum class Wire : uint8_t { plain, sealed };

// The near side's loop is the constructing thread's, the far one has a thread of its own.
class Nodes {
 public:
  explicit Nodes(Wire wire);
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

 private:
  OneAddress resolver_;
  Node near_;
  Node far_;
  Source source_;
  std::unique_ptr<TcpListener> listener_;
  std::thread server_;
};

}  // namespace penstock::tcp::bench
