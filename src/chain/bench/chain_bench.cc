// Chains of real targets over TCP loopback, beside durable writes to a plain file of the same disk.
//
//   chain_bench DIRECTORY [copies=3] [rounds=5] [milliseconds=1000] [what]
//
// `what`: rows whose names have this in them, and all references. References for one update of 4
// KiB at a time: what a durable write takes while as many are under way as there are copies, and
// two trips of 4 KiB and back over TCP loopback between two threads that wait in read().
//
// All copies lie in DIRECTORY, which is made, and removed by nobody. Each has a process's worth of
// parts and a thread of its own; there is no controller: one version of one chain lasts for ever.
#include <algorithm>
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "penstock/chain.h"
#include "penstock/disk.h"
#include "penstock/kv.h"
#include "penstock/store.h"
#include "penstock/tcp.h"
#include "penstock/wire.h"

namespace penstock::chain {
namespace {

using wire::ChunkMethod;

constexpr ChainId kChain{1};
constexpr NodeId kClient{100};
constexpr uint64_t kInode = 7;
constexpr uint32_t kChunkBytes = 4 * kMiB;
constexpr uint32_t kChunks = 64;

int milliseconds_each = 1000;

engine::Time now() {
  return engine::system_clock().now();
}
double seconds_since(engine::Time start) {
  return std::chrono::duration<double>(now() - start).count();
}

template <class T>
T must(Outcome<T> made) {
  if (made) return std::move(*made);
  std::fprintf(stderr, "%s\n", made.error().message.c_str());
  std::exit(1);
}

class Addresses final : public tcp::Resolver {
 public:
  std::vector<tcp::SocketAddress> addresses_of(NodeId node) const override {
    const auto found = all.find(node);
    return found == all.end() ? std::vector<tcp::SocketAddress>() : std::vector{found->second};
  }
  std::map<NodeId, tcp::SocketAddress> all;
};

tcp::NetworkConfig config_of(NodeId node, const tcp::Resolver& resolver) {
  tcp::NetworkConfig config;
  config.identity.node = node;
  config.identity.lowest_version = config.identity.highest_version = tcp::kVersion;
  config.identity.incarnation = tcp::Incarnation{1};
  config.resolver = &resolver;
  return config;
}

// A loop with sockets, and a disk. It does not spin, as those of nodes that only store.
struct Process {
  Process(NodeId node, const std::string& directory, const tcp::Resolver& resolver)
      : driver(must(disk::DiskDriver::create({.root = directory}))),
        loop(engine::system_clock(), random, driver->parker()),
        disk(driver->attach(loop)),
        network(config_of(node, resolver)),
        net(must(tcp::TcpNet::create(network, loop, driver->parker()))) {}

  engine::SeededRandom random{1};
  std::unique_ptr<disk::DiskDriver> driver;
  engine::Loop loop;
  engine::Disk& disk;
  tcp::TcpNetwork network;
  std::unique_ptr<tcp::TcpNet> net;
};

// A call as of a node that is an agent only: without TLS all have every role.
class AgentsCall final : public engine::IncomingCall {
 public:
  explicit AgentsCall(engine::IncomingCall& call) : call_(call) {
    method = call.method;
    request = call.request;
    exposure_count = call.exposure_count;
  }
  engine::Peer peer() const override {
    engine::Peer peer = call_.peer();
    peer.roles &= engine::kRoleAgent | engine::kRoleStorage;
    return peer;
  }
  uint64_t exposure_length(uint32_t index) const override { return call_.exposure_length(index); }
  engine::Access exposure_access(uint32_t index) const override {
    return call_.exposure_access(index);
  }
  std::optional<engine::MemoryRef> direct(uint32_t index) override { return call_.direct(index); }
  void place(engine::TransferOp& op) override {
    op.call = &call_;
    call_.place(op);
  }
  void fetch(engine::TransferOp& op) override {
    op.call = &call_;
    call_.fetch(op);
  }
  void reply(Status status, Bytes response) override {
    const std::unique_ptr<AgentsCall> self(this);
    call_.reply(status, response);
  }

 private:
  engine::IncomingCall& call_;
};

class AgentsOnly final : public engine::Service {
 public:
  explicit AgentsOnly(engine::Service& service) : service_(service) {}
  void on_call(engine::IncomingCall& call) override {
    service_.on_call(*new AgentsCall(call));  // until its reply
  }

 private:
  engine::Service& service_;
};

// Capabilities of single files, all good: what they cost is a look for each call.
struct Believing final : CapabilityJudge {
  bool are_asked_for() const override { return true; }
  Verdict judge(const wire::Capability&) override { return Verdict::good; }
};
struct Showing final : CapabilitySource {
  Result<std::optional<wire::Capability>> find(InodeId inode, uint64_t session, uint8_t) override {
    wire::Capability one;
    one.rights = wire::kCapabilityRights;
    one.key = 1;
    one.chain_last = UINT32_MAX;
    one.inode_first = one.inode_last = inode.value;
    one.session = session;
    return std::optional(one);
  }
  void drop(const wire::Capability&) override {}
};
bool asks_for_capabilities = false;
Believing believing;

struct Copy {
  Copy(uint32_t number, const std::string& directory, Addresses& addresses)
      : process(NodeId{number}, directory, addresses),
        kv(must(kv::open_rocksdb({.path = directory + "/kv", .create = true}))),
        listener(must(tcp::TcpListener::listen(process.network, *process.net,
                                               *tcp::SocketAddress::parse("127.0.0.1:0")))) {
    store::TargetConfig config;
    config.directory = directory + "/data";
    config.id = TargetId{number};
    config.old_chain = kChain;
    target = must(store::Target::open(process.loop, process.disk, *kv, config));
    host = Host::make({.target = config.id,
                       .incarnation = 1,
                       .loop = &process.loop,
                       .net = process.net.get(),
                       .store = &target->chains(),
                       .judge = asks_for_capabilities ? &believing : nullptr});
    agents = std::make_unique<AgentsOnly>(host->service());
    process.net->serve({NodeId{number}, 0}, *agents);
    addresses.all.emplace(NodeId{number}, listener->address());
  }

  void run(const View& view) {
    host->lease(engine::kNever);
    host->adopt(view);
    thread = std::thread([this] { process.loop.run(); });
  }

  Process process;
  std::unique_ptr<engine::Kv> kv;
  std::unique_ptr<tcp::TcpListener> listener;
  std::unique_ptr<store::Target> target;
  std::unique_ptr<AgentsOnly> agents;
  std::unique_ptr<Host> host;
  std::thread thread;
};

struct Runner;
struct Call : engine::CallOp {
  wire::ChunkRequest words;
  std::array<std::byte, 64> answer{};
  std::byte* memory = nullptr;
  engine::Time begun;
  Runner* runner = nullptr;
};

// Keeps `depth` calls of one kind under way.
struct Runner {
  ChunkMethod method = ChunkMethod::read;
  uint32_t bytes = 0;
  uint32_t chunks = kChunks;
  ChainNet* net = nullptr;
  engine::Random* random = nullptr;
  engine::Time end;
  uint64_t done = 0;
  double seconds = 0;  // of all calls together
  int left = 0;

  void next(Call& call) {
    const uint32_t places = kChunkBytes / bytes;
    call.words = {.inode = kInode,
                  .chunk = static_cast<uint32_t>(random->below(chunks)),
                  .begin = static_cast<uint32_t>(random->below(places)) * bytes,
                  .length = bytes,
                  .flags = 0};
    call.begun = now();
    call.deadline = call.begun + std::chrono::seconds(20);
    net->call(call);
  }
};

struct Figures {
  double rate = 0;  // per second
  double mean = 0;  // microseconds
  double cpu = 0;   // microseconds of processors for each, of all copies and the client; 0: unknown
};

// What this process has used of processors, in seconds.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::byte* memory_of(size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) std::exit(1);
  return static_cast<std::byte*>(memory);
}

Figures run_calls(Process& client, Runner runner, int depth) {
  std::vector<std::unique_ptr<Call>> calls;
  runner.left = depth;
  runner.end = now() + std::chrono::milliseconds(milliseconds_each);
  const engine::Time start = now();
  const double used = processor_seconds();
  for (int i = 0; i < depth; ++i) {
    Call& call = *calls.emplace_back(std::make_unique<Call>());
    call.memory = memory_of(runner.bytes);
    call.runner = &runner;
    call.to = address_of(kChain);
    call.method = static_cast<uint16_t>(runner.method);
    call.request = wire::as_wire(call.words);
    call.response = call.answer;
    const auto access =
        runner.method == ChunkMethod::read ? engine::Access::place : engine::Access::fetch;
    call.exposures[0] = {{call.memory, runner.bytes}, access};
    call.exposure_count = 1;
    call.completion = [](engine::Op& op) {
      auto& self = static_cast<Call&>(op);
      Runner& of = *self.runner;
      if (!self.status.ok()) {
        std::fprintf(stderr, "a call failed: %s\n", std::string(self.status.name()).c_str());
        std::exit(1);
      }
      ++of.done;
      of.seconds += seconds_since(self.begun);
      if (now() >= of.end) {
        --of.left;
      } else {
        of.next(self);
      }
    };
    runner.next(call);
  }
  while (runner.left != 0) client.loop.poll_or_park(engine::kNever);
  for (const auto& call : calls) ::munmap(call->memory, runner.bytes);
  const auto done = static_cast<double>(runner.done);
  return {done / seconds_since(start), runner.seconds / done * 1e6,
          (processor_seconds() - used) / done * 1e6};
}

// As many threads as the depth says, each with a durable write at a time.
Figures plain_writes(const std::string& directory, uint32_t bytes, int depth) {
  const std::string path = directory + "/plain";
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_DSYNC, 0600));
  if (!file || ::ftruncate(file.get(), int64_t{kChunks} * kChunkBytes) != 0) std::exit(1);
  std::atomic<uint64_t> done{0};
  const engine::Time start = now();
  const engine::Time end = start + std::chrono::milliseconds(milliseconds_each);
  std::vector<std::thread> threads;
  for (int i = 0; i < depth; ++i) {
    threads.emplace_back([&, i] {
      engine::SeededRandom random(static_cast<uint64_t>(i));
      std::byte* const memory = memory_of(bytes);
      while (now() < end) {
        const uint64_t at = random.below(uint64_t{kChunks} * kChunkBytes / bytes) * bytes;
        if (::pwrite(file.get(), memory, bytes, static_cast<off_t>(at)) != bytes) std::exit(1);
        done.fetch_add(1);
      }
      ::munmap(memory, bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto count = static_cast<double>(done.load());
  return {count / seconds_since(start), seconds_since(start) * depth / count * 1e6, 0};
}

int connected_to(const sockaddr_in& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  if (fd < 0 || ::connect(fd, to, sizeof(address)) != 0) std::exit(1);
  return fd;
}

// False when the other end is closed.
bool transfer_all(int fd, bool out, std::byte* bytes, size_t length) {
  for (size_t done = 0; done < length;) {
    const ssize_t some = out ? ::send(fd, bytes + done, length - done, MSG_NOSIGNAL)
                             : ::recv(fd, bytes + done, length - done, 0);
    if (some <= 0) return false;
    done += static_cast<size_t>(some);
  }
  return true;
}

// 4 KiB there and 64 bytes back, one at a time.
Figures bare_trips() {
  constexpr size_t kThere = 4096, kBack = 64;
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const as_any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), as_any, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), as_any, &length) != 0) {
    std::exit(1);
  }
  const UniqueFd here(connected_to(address));
  const UniqueFd there(::accept(listener.get(), nullptr, nullptr));
  const int one = 1;
  for (const int fd : {here.get(), there.get()}) {
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  }
  std::thread answers([&] {
    std::array<std::byte, kThere> bytes{};
    while (transfer_all(there.get(), false, bytes.data(), kThere) &&
           transfer_all(there.get(), true, bytes.data(), kBack)) {
      continue;
    }
  });
  std::array<std::byte, kThere> bytes{};
  uint64_t done = 0;
  const engine::Time start = now();
  const engine::Time end = start + std::chrono::milliseconds(milliseconds_each / 2);
  while (now() < end) {
    if (!transfer_all(here.get(), true, bytes.data(), kThere)) std::exit(1);
    if (!transfer_all(here.get(), false, bytes.data(), kBack)) std::exit(1);
    ++done;
  }
  const double seconds = seconds_since(start);
  ::shutdown(here.get(), SHUT_WR);
  answers.join();
  return {static_cast<double>(done) / seconds, seconds / static_cast<double>(done) * 1e6, 0};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Row {
  const char* name;
  std::vector<double> rates, means, cpus;
  void add(Figures figures) {
    rates.push_back(figures.rate);
    means.push_back(figures.mean);
    cpus.push_back(figures.cpu);
  }
  bool wanted(std::string_view what) const {
    return std::string_view(name).find(what) != std::string_view::npos;
  }
  double rate() const { return median(rates); }
  double mean() const { return median(means); }
  void print() const {
    if (rates.empty()) return;
    std::printf("%-44s %10.1f/s %10.1f us", name, median(rates), median(means));
    if (median(cpus) > 0) std::printf(" %10.1f us CPU", median(cpus));
    std::printf("\n");
  }
};

// In the order in which they are printed.
struct Rows {
  Row plain_large{"plain file, durable 1 MiB, 8 at once", {}, {}, {}};
  Row large{"chain, durable 1 MiB, 8 at once", {}, {}, {}};
  Row plain_small{"plain file, durable 4 KiB, one at a time", {}, {}, {}};
  Row plain_copies{"plain file, durable 4 KiB, one for each copy", {}, {}, {}};
  Row trips{"TCP loopback, 4 KiB there, 64 bytes back", {}, {}, {}};
  Row one{"chain, durable 4 KiB, one at a time", {}, {}, {}};
  Row joined{"chain, durable 4 KiB, 64 on one chunk", {}, {}, {}};
  Row many{"chain, durable 4 KiB, 64 on all chunks", {}, {}, {}};
  Row read_one{"chain, read 4 KiB, one at a time", {}, {}, {}};
  Row read_many{"chain, read 4 KiB, 64 at once", {}, {}, {}};
  Row read_large{"chain, read 1 MiB, 4 at once", {}, {}, {}};

  void print(uint32_t copies) const {
    for (const Row* row : {&plain_large, &large, &plain_small, &plain_copies, &trips, &one, &joined,
                           &many, &read_one, &read_many, &read_large}) {
      row->print();
    }
    if (!large.rates.empty()) {
      std::printf("1 MiB: %.2f of the plain file's rate, shared among the copies\n",
                  large.rate() / (plain_large.rate() / copies));
    }
    if (!one.rates.empty()) {
      std::printf("4 KiB, one at a time: %.2f times one write for each copy and two trips\n",
                  one.mean() / (plain_copies.mean() + 2 * trips.mean()));
    }
    if (!one.rates.empty() && !joined.rates.empty()) {
      std::printf("4 KiB, 64 on one chunk: %.1f times the rate of one at a time\n",
                  joined.rate() / one.rate());
    }
  }
};

int run(const std::string& directory, uint32_t copies, int rounds, std::string_view what) {
  Addresses addresses;
  std::vector<std::unique_ptr<Copy>> nodes;
  View view{kChain, 1, {}};
  for (uint32_t i = 1; i <= copies; ++i) {
    const std::string at = directory + "/copy" + std::to_string(i);
    std::filesystem::create_directories(at);
    nodes.push_back(std::make_unique<Copy>(i, at, addresses));
    view.members.push_back({TargetId{i}, 1, {NodeId{i}, 0}, Standing::serving});
  }
  Process client(kClient, directory, addresses);
  for (const auto& node : nodes) node->run(view);
  KnownChains chains([](ChainId) {});
  chains.learn(view);
  Showing showing;
  const auto net =
      ChainNet::make({.loop = &client.loop,
                      .net = client.net.get(),
                      .chains = &chains,
                      .node = kClient,
                      .incarnation = static_cast<uint64_t>(now().time_since_epoch().count()),
                      .first_slot = 0,
                      .slots = 64,
                      .session =
                          [] {
                            return wire::AgentSession{kClient, 1}.word();
                          },
                      .capabilities = &showing});
  Runner base;
  base.net = net.get();
  base.random = &client.random;
  const auto with = [&](ChunkMethod method, uint32_t bytes, uint32_t chunks) {
    Runner runner = base;
    runner.method = method;
    runner.bytes = bytes;
    runner.chunks = chunks;
    return runner;
  };
  Rows rows;
  const auto measure = [&](Row& row, ChunkMethod method, uint32_t bytes, uint32_t chunks,
                           int depth) {
    if (row.wanted(what)) row.add(run_calls(client, with(method, bytes, chunks), depth));
  };
  // The targets make their logs, which small updates have to ask for.
  (void)run_calls(client, with(ChunkMethod::write, 4096, kChunks), 16);
  for (int round = 0; round < rounds; ++round) {
    rows.plain_large.add(plain_writes(directory, kMiB, 8));
    measure(rows.large, ChunkMethod::write, kMiB, kChunks, 8);
    rows.plain_small.add(plain_writes(directory, 4096, 1));
    rows.plain_copies.add(plain_writes(directory, 4096, static_cast<int>(copies)));
    rows.trips.add(bare_trips());
    measure(rows.one, ChunkMethod::write, 4096, kChunks, 1);
    measure(rows.joined, ChunkMethod::write, 4096, 1, 64);
    measure(rows.many, ChunkMethod::write, 4096, kChunks, 64);
    measure(rows.read_one, ChunkMethod::read, 4096, kChunks, 1);
    measure(rows.read_many, ChunkMethod::read, 4096, kChunks, 64);
    measure(rows.read_large, ChunkMethod::read, kMiB, kChunks, 4);
  }
  std::printf("%u copies in %s\n", copies, directory.c_str());
  rows.print(copies);
  // The processes end as if they were killed: there is nothing to be kept.
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace
}  // namespace penstock::chain

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr,
                 "usage: chain_bench DIRECTORY [copies] [rounds] [milliseconds] [what]\n"
                 "with PENSTOCK_CAPABILITIES=1 targets ask for them\n");
    return 2;
  }
  const auto number = [&](int at, int otherwise) {
    return count > at ? std::max(1, std::atoi(arguments[at])) : otherwise;
  };
  penstock::chain::milliseconds_each = number(4, 1000);
  penstock::chain::asks_for_capabilities = std::getenv("PENSTOCK_CAPABILITIES") != nullptr;
  return penstock::chain::run(arguments[1], static_cast<uint32_t>(number(2, 3)), number(3, 5),
                              count > 5 ? arguments[5] : "");
}
