// Calls over loopback beside bare sockets, in turns in one run.
//
//   tcp_bench [ROUNDS] [MILLISECONDS]
//
// Three pairs, each with a serving thread: 1 MiB placed into the asking memory, four at once, and a
// bare stream of bytes, both with CRC-32C of what came; 4 KiB one at a time; 4 KiB with 64 in
// flight. Prints the median of all rounds and the ratio of the medians.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "penstock/disk.h"
#include "penstock/tcp.h"

namespace penstock::tcp {
namespace {

using engine::Access;
using engine::Loop;
using engine::Op;

constexpr NodeId kNear{1};
constexpr NodeId kFar{2};
constexpr engine::Address kService{kFar, 1};

int milliseconds_each = 1000;

engine::Time now() {
  return engine::system_clock().now();
}
double seconds_since(engine::Time start) {
  return std::chrono::duration<double>(now() - start).count();
}
engine::Time round_end() {
  return now() + std::chrono::milliseconds(milliseconds_each);
}

class OneAddress final : public Resolver {
 public:
  std::vector<SocketAddress> addresses_of(NodeId) const override { return {address}; }
  SocketAddress address;
};

NetworkConfig config_of(NodeId node, const Resolver& resolver) {
  NetworkConfig config;
  config.identity.node = node;
  config.identity.lowest_version = config.identity.highest_version = kVersion;
  config.resolver = &resolver;
  return config;
}

struct Node {
  Node(NodeId id, const Resolver& resolver) : network(config_of(id, resolver)) {}

  engine::SeededRandom random{1};
  std::unique_ptr<disk::DiskDriver> driver = std::move(*disk::DiskDriver::create({.root = "/tmp"}));
  Loop loop{engine::system_clock(), random, driver->parker()};
  engine::Disk& disk = driver->attach(loop);
  TcpNetwork network;
  std::unique_ptr<TcpNet> net = std::move(*TcpNet::create(network, loop, driver->parker()));
};

// Places what it has into the first exposure.
class Source final : public engine::Service {
 public:
  Source() : bytes_(kMiB, std::byte{7}) {}
  void on_call(engine::IncomingCall& call) override {
    Transfer* transfer = free_;
    if (transfer == nullptr) {
      transfer = all_.emplace_back(std::make_unique<Transfer>()).get();
    } else {
      free_ = transfer->next;
    }
    transfer->source = this;
    transfer->call = &call;
    transfer->local = {bytes_.data(), call.exposure_length(0), engine::kNoBuffer,
                       engine::MemoryKind::host};
    transfer->completion = [](Op& op) {
      auto& done = static_cast<Transfer&>(op);
      engine::IncomingCall& served = *done.call;
      done.next = std::exchange(done.source->free_, &done);
      served.reply(done.status, {});
    };
    call.place(*transfer);
  }

 private:
  struct Transfer : engine::TransferOp {
    Source* source = nullptr;
    Transfer* next = nullptr;
  };
  std::vector<std::byte> bytes_;
  std::vector<std::unique_ptr<Transfer>> all_;
  Transfer* free_ = nullptr;
};

struct Runner;
struct Read : engine::CallOp {
  std::array<std::byte, 64> bytes{};
  std::vector<std::byte> memory;
  Runner* runner = nullptr;
};

struct Runner {
  engine::Net* net = nullptr;
  bool verify = false;
  engine::Time end;
  uint64_t done = 0;
  int left = 0;
};

struct Figures {
  double rate = 0;   // per second
  double calls = 0;  // system calls for each, of both sides: to submit, and to wait
};

uint64_t enters() {
  uint64_t count = 0;
  for (const auto& sample : metrics::snapshot()) {
    if (sample.name == "disk.enter" || sample.name == "tcp.enter") count += sample.value;
  }
  return count;
}

Figures calls_of(Node& near, size_t bytes, int depth, bool verify) {
  Runner runner{.net = near.net.get(), .verify = verify, .end = round_end(), .left = depth};
  std::vector<std::unique_ptr<Read>> reads;
  const uint64_t calls = enters();
  const engine::Time start = now();
  for (int i = 0; i < depth; ++i) {
    Read& read = *reads.emplace_back(std::make_unique<Read>());
    read.memory.resize(bytes);
    read.runner = &runner;
    read.to = kService;
    read.request = read.bytes;
    read.exposures[0] = {{read.memory.data(), bytes, engine::kNoBuffer, engine::MemoryKind::host},
                         Access::place};
    read.exposure_count = 1;
    read.completion = [](Op& op) {
      auto& self = static_cast<Read&>(op);
      Runner& of = *self.runner;
      if (!self.status.ok()) {
        std::fprintf(stderr, "a call failed: %s\n", std::string(self.status.name()).c_str());
        std::exit(1);
      }
      if (of.verify && crc32c(self.memory) == 0) std::abort();
      ++of.done;
      if (now() >= of.end) {
        --of.left;
      } else {
        of.net->call(self);
      }
    };
    near.net->call(read);
  }
  while (runner.left != 0) near.loop.poll_or_park(engine::kNever);
  const double seconds = seconds_since(start);
  const auto done = static_cast<double>(runner.done);
  return {done / seconds, static_cast<double>(enters() - calls) / done};
}

void send_all(int socket, Bytes bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) std::exit(0);
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
}

bool receive_all(int socket, MutableBytes bytes) {
  while (!bytes.empty()) {
    // Work of the thread's rings may cut it short.
    const auto got = ::recv(socket, bytes.data(), bytes.size(), MSG_WAITALL);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got > 0) bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return true;
}

// Two connected sockets over loopback.
struct Pair {
  Pair() {
    const UniqueFd door(::socket(AF_INET, SOCK_STREAM, 0));
    SocketAddress any = *SocketAddress::parse("127.0.0.1:0");
    if (::bind(door.get(), static_cast<const sockaddr*>(any.data()), any.length()) != 0 ||
        ::listen(door.get(), 1) != 0) {
      std::exit(1);
    }
    any = *SocketAddress::of_socket(door.get());
    near = UniqueFd(::socket(AF_INET, SOCK_STREAM, 0));
    if (::connect(near.get(), static_cast<const sockaddr*>(any.data()), any.length()) != 0) {
      std::exit(1);
    }
    far = UniqueFd(::accept(door.get(), nullptr, nullptr));
    const int on = 1;
    for (const int socket : {near.get(), far.get()}) {
      (void)::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
  }
  UniqueFd near, far;
};

Figures bare_stream() {
  Pair pair;
  std::thread sender([&] {
    const std::vector<std::byte> bytes(kMiB, std::byte{7});
    while (::send(pair.far.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  std::vector<std::byte> memory(kMiB);
  double done = 0;
  const engine::Time start = now();
  const engine::Time end = round_end();
  while (now() < end) {
    if (!receive_all(pair.near.get(), memory) || crc32c(memory) == 0) std::abort();
    ++done;
  }
  const double seconds = seconds_since(start);
  (void)::shutdown(pair.near.get(), SHUT_RDWR);
  pair.near.reset();
  sender.join();
  return {done / seconds, 1};
}

// Requests of 64 bytes, answers of 4 KiB.
Figures bare_ping_pong(int depth) {
  Pair pair;
  std::thread server([&] {
    std::array<std::byte, 64> request;
    const std::vector<std::byte> answer(4096, std::byte{7});
    while (receive_all(pair.far.get(), request)) send_all(pair.far.get(), answer);
  });
  const std::array<std::byte, 64> request{};
  std::vector<std::byte> answer(4096);
  for (int i = 0; i < depth; ++i) send_all(pair.near.get(), request);
  double done = 0;
  const engine::Time start = now();
  const engine::Time end = round_end();
  while (now() < end) {
    if (!receive_all(pair.near.get(), answer)) std::abort();
    ++done;
    send_all(pair.near.get(), request);
  }
  for (int i = 0; i < depth; ++i) (void)receive_all(pair.near.get(), answer);
  const double seconds = seconds_since(start);
  (void)::shutdown(pair.near.get(), SHUT_RDWR);
  server.join();
  return {done / seconds, 2};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Row {
  const char* name;
  std::vector<double> ours, bare, calls;
  void print() const {
    std::printf("%-28s %12.1f/s %12.1f/s  ratio %.2f  system calls of both sides %.2f\n", name,
                median(ours), median(bare), median(ours) / median(bare), median(calls));
  }
  void add(Figures mine, Figures theirs) {
    ours.push_back(mine.rate);
    bare.push_back(theirs.rate);
    calls.push_back(mine.calls);
  }
};

int run(int rounds) {
  OneAddress resolver;
  Node near(kNear, resolver);
  Node far(kFar, resolver);
  Source source;
  far.net->serve(kService, source);
  auto listener =
      std::move(*TcpListener::listen(far.network, *far.net, *SocketAddress::parse("127.0.0.1:0")));
  resolver.address = listener->address();
  std::thread server([&] { far.loop.run(); });
  Row large{"1 MiB, 4 at once", {}, {}, {}};
  Row one{"4 KiB, one at a time", {}, {}, {}};
  Row many{"4 KiB, 64 at once", {}, {}, {}};
  for (int round = 0; round < rounds; ++round) {
    large.add(calls_of(near, kMiB, 4, true), bare_stream());
    one.add(calls_of(near, 4096, 1, false), bare_ping_pong(1));
    many.add(calls_of(near, 4096, 64, false), bare_ping_pong(64));
  }
  std::printf("%-28s %14s %14s\n", "", "calls", "bare sockets");
  large.print();
  one.print();
  many.print();
  far.loop.stop();
  server.join();
  listener.reset();
  far.net->withdraw(kService);
  for (Node* const node : {&near, &far}) {
    node->net->close();
    while (node->loop.poll()) {
    }
    node->net.reset();
    node->loop.remove(node->disk);
  }
  return 0;
}

}  // namespace
}  // namespace penstock::tcp

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 5;
  if (count > 2) penstock::tcp::milliseconds_each = std::atoi(arguments[2]);
  return penstock::tcp::run(std::max(1, rounds));
}
