#include "penstock/loopback/nodes.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fmt/format.h>
#include <pthread.h>

namespace penstock::loopback {
namespace {

using engine::Access;
using engine::Op;

constexpr NodeId kNear{1};
constexpr NodeId kFar{2};
constexpr engine::Address kService{kFar, 1};
constexpr engine::Address kProbes{kFar, probe::kService};

uint64_t enters() {
  uint64_t count = 0;
  for (const auto& sample : metrics::snapshot()) {
    if (sample.name == "disk.enter" || sample.name == "tcp.enter") count += sample.value;
  }
  return count;
}

struct Runner {
  engine::Net* net = nullptr;
  bool verify = false;
  engine::Time end;
  uint64_t done = 0;
  int left = 0;
};

struct Read : engine::CallOp {
  std::array<std::byte, 64> bytes{};
  std::vector<std::byte> memory;
  Runner* runner = nullptr;
};

void on_read(Op& op) {
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
}

}  // namespace

std::shared_ptr<const tls::Credentials> credentials_of(NodeId node) {
  constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;
  const auto hours_from_now = [](int64_t hours) {
    return engine::WallTime{engine::system_clock().wall().nanoseconds + hours * kHour};
  };
  static const tls::Authority kAuthority = tls::Authority::make({}, hours_from_now(-1));
  tls::Credentials::Config config;
  config.key = tls::PrivateKey::make();
  config.certificate = *kAuthority.sign(config.key->request(), {.node = node, .roles = "storage"},
                                        2 + node.value, hours_from_now(-1), hours_from_now(1));
  config.authorities = {kAuthority.certificate()};
  config.clock = &engine::system_clock();
  return *tls::Credentials::make(std::move(config));
}

tcp::NetworkConfig config_of(NodeId node, Wire wire, const tcp::Resolver& resolver) {
  tcp::NetworkConfig config;
  config.identity.node = node;
  config.identity.lowest_version = config.identity.highest_version = tcp::kVersion;
  config.resolver = &resolver;
  if (wire == Wire::sealed) config.credentials = credentials_of(node);
  return config;
}

double processor_time(pthread_t thread) {
  clockid_t clock{};
  timespec time{};
  if (::pthread_getcpuclockid(thread, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void Source::on_call(engine::IncomingCall& call) {
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

Outcome<void> Node::start() {
  TRY_ASSIGN(driver, disk::DiskDriver::create({.root = "/tmp"}));
  loop = std::make_unique<engine::Loop>(engine::system_clock(), random, driver->parker());
  disk = &driver->attach(*loop);
  TRY_ASSIGN(net, tcp::TcpNet::create(network, *loop, driver->parker()));
  return {};
}

void Node::close() {
  if (net != nullptr) {
    net->close();
    while (loop->poll()) {
    }
    net.reset();
  }
  if (disk != nullptr) loop->remove(*disk);
  disk = nullptr;
}

Outcome<void> Server::listen() {
  TRY(node_.start());
  const auto any = tcp::SocketAddress::parse("127.0.0.1:0");
  ASSERT(any);
  TRY_ASSIGN(listener_, tcp::TcpListener::listen(node_.network, *node_.net, *any));
  return {};
}

void Server::serve(engine::Address address, engine::Service& service) {
  ASSERT(!thread_.joinable());
  node_.net->serve(address, service);
  served_.push_back(address);
}

void Server::run() {
  thread_ = std::thread([this] { node_.loop->run(); });
}

Server::~Server() {
  if (thread_.joinable()) {
    node_.loop->stop();
    thread_.join();
  }
  for (const engine::Address address : served_) node_.net->withdraw(address);
  listener_.reset();
  node_.close();
}

Nodes::Nodes(Wire wire)
    : near_(config_of(kNear, wire, resolver_)), far_(config_of(kFar, wire, resolver_)) {}

Outcome<std::unique_ptr<Nodes>> Nodes::start(Wire wire) {
  std::unique_ptr<Nodes> nodes(new Nodes(wire));
  TRY(nodes->begin());
  return nodes;
}

Outcome<void> Nodes::begin() {
  TRY(near_.start());
  TRY(far_.listen());
  resolver_.address = far_.address();
  probes_ = std::make_unique<probe::Service>(
      probe::Service::Config{&far_.loop(), nullptr, [] { return probe::MachineFacts(); }});
  far_.serve(kService, source_);
  far_.serve(kProbes, *probes_);
  far_.run();
  return {};
}

Nodes::~Nodes() {
  near_.close();
}

Outcome<probe::Figures> Nodes::probe(const probe::Workload& workload) {
  struct Probe : probe::ProbeOp {
    bool is_over = false;
  } op;
  op.net = near_.net.get();
  op.to = kProbes;
  op.plan = {workload};
  op.completion = [](Op& done) { static_cast<Probe&>(done).is_over = true; };
  probe::probe(*near_.loop, op);
  while (!op.is_over) near_.loop->poll_or_park(engine::kNever);
  if (!op.status.ok()) {
    return Failure{op.status, fmt::format("calls over loopback fail: {}", op.status.name())};
  }
  return op.figures.front();
}

Figures Nodes::read(const Reads& asked, std::chrono::milliseconds duration) {
  // The loop stood still since the last time: what it connects now has its whole time from now on.
  (void)near_.loop->poll();
  Runner runner{near_.net.get(), asked.verify, now() + duration, 0, asked.depth};
  std::vector<std::unique_ptr<Read>> reads;
  const uint64_t calls = enters();
  const double near_before = processor_time(::pthread_self());
  const double far_before = processor_time(far_.thread());
  const engine::Time start = now();
  for (int i = 0; i < asked.depth; ++i) {
    Read& read = *reads.emplace_back(std::make_unique<Read>());
    read.memory.resize(asked.bytes);
    read.runner = &runner;
    read.to = kService;
    read.request = read.bytes;
    read.exposures[0] = {
        {read.memory.data(), asked.bytes, engine::kNoBuffer, engine::MemoryKind::host},
        Access::place};
    read.exposure_count = 1;
    read.completion = on_read;
    near_.net->call(read);
  }
  while (runner.left != 0) near_.loop->poll_or_park(engine::kNever);
  const double seconds = seconds_since(start);
  const auto done = static_cast<double>(runner.done);
  return {.rate = done / seconds,
          .calls = static_cast<double>(enters() - calls) / done,
          .near_us = (processor_time(::pthread_self()) - near_before) / done * 1e6,
          .far_us = (processor_time(far_.thread()) - far_before) / done * 1e6};
}

}  // namespace penstock::loopback
