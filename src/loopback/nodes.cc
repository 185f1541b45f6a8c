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

// For queue pairs to come about.
constexpr std::chrono::seconds kJoinTime{10};

uint64_t enters() {
  uint64_t count = 0;
  for (const auto& sample : metrics::snapshot()) {
    if (sample.name == "disk.enter" || sample.name == "tcp.enter") count += sample.value;
  }
  return count;
}

struct Runner {
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;
  bool verify = false;
  engine::Time end;
  uint64_t done = 0;
  int left = 0;
  Op* over = nullptr;  // completes with the last one
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
  if (now() < of.end) return of.net->call(self);
  if (--of.left == 0) of.loop->complete(*of.over, Code::ok);
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

Outcome<void> Node::start(rails::Devices* devices) {
  TRY_ASSIGN(driver, disk::DiskDriver::create({.root = "/tmp"}));
  loop = std::make_unique<engine::Loop>(engine::system_clock(), random, driver->parker());
  disk = &driver->attach(*loop);
  TRY_ASSIGN(net, tcp::TcpNet::create(network, *loop, driver->parker()));
  if (devices == nullptr) return {};
  introductions = std::make_unique<rails::Introductions>(*loop);
  net->serve({self, rails::kIntroductionService}, introductions->service());
  rails = rails::RailNet::make(
      {.self = self, .tcp = net.get(), .introductions = introductions.get(), .devices = devices},
      *loop, &driver->parker());
  return {};
}

void Node::stop() {
  if (!thread.joinable()) return;
  loop->stop();
  thread.join();
}

void Node::close() {
  if (introductions != nullptr) {
    net->withdraw({self, rails::kIntroductionService});
    struct Stop : Op {
      bool is_over = false;
    } stop;
    stop.completion = [](Op& done) { static_cast<Stop&>(done).is_over = true; };
    introductions->stop(stop);
    while (!stop.is_over) loop->poll();
  }
  if (net != nullptr) {
    net->close();
    if (rails != nullptr) rails->close();
    while (loop->poll()) {
    }
    rails.reset();
    introductions.reset();
    net.reset();
  }
  if (disk != nullptr) loop->remove(*disk);
  disk = nullptr;
}

Outcome<void> Server::listen(rails::Devices* devices) {
  TRY(node_.start(devices));
  const auto any = tcp::SocketAddress::parse("127.0.0.1:0");
  ASSERT(any);
  TRY_ASSIGN(listener_, tcp::TcpListener::listen(node_.network, *node_.net, *any));
  return {};
}

void Server::serve(engine::Address address, engine::Service& service) {
  ASSERT(!node_.thread.joinable());
  node_.calls().serve(address, service);
  served_.push_back(address);
}

Server::~Server() {
  node_.stop();
  for (const engine::Address address : served_) node_.calls().withdraw(address);
  listener_.reset();
  node_.close();
}

Nodes::Nodes(Wire wire)
    : devices_(wire == Wire::verbs ? rails::machine_devices() : nullptr),
      near_(config_of(kNear, wire, resolver_)),
      far_(config_of(kFar, wire, resolver_)) {}

Outcome<std::unique_ptr<Nodes>> Nodes::start(Wire wire) {
  std::unique_ptr<Nodes> nodes(new Nodes(wire));
  TRY(nodes->begin());
  return nodes;
}

Outcome<void> Nodes::begin() {
  TRY(near_.start(devices_.get()));
  TRY(far_.listen(devices_.get()));
  resolver_.address = far_.address();
  probes_ = std::make_unique<probe::Service>(
      probe::Service::Config{&far_.loop(), nullptr, [] { return probe::MachineFacts(); }});
  far_.serve(kService, source_);
  far_.serve(kProbes, *probes_);
  near_.run();
  far_.run();
  return devices_ == nullptr ? Outcome<void>() : await_queue_pairs();
}

// Begins queue pairs where there are none.
bool Nodes::calls_go_by_rdma() {
  const Status status = engine::thread_caller().call(*near_.loop, [this](Op& done) {
    const bool reads = near_.rails->prepare(kService);
    const bool probes = near_.rails->prepare(kProbes);
    near_.loop->complete(done, reads && probes ? Code::ok : Code::peer_gone);
  });
  return status.ok();
}

Outcome<void> Nodes::await_queue_pairs() {
  const engine::Time until = now() + kJoinTime;
  while (!calls_go_by_rdma()) {
    if (now() >= until) {
      near_.stop();
      std::string reason = near_.rails->trouble();
      for (const rails::RailFacts& facts : near_.rails->facts()) {
        if (reason.empty()) reason = facts.reason;
      }
      return Failure{Code::not_supported, "no queue pair comes about: " + reason};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

Nodes::~Nodes() {
  near_.stop();
  near_.close();
}

Outcome<probe::Figures> Nodes::probe(const probe::Workload& workload) {
  struct Probe : probe::ProbeOp {
    engine::Loop* loop = nullptr;
    Op* over = nullptr;
  } op;
  op.loop = near_.loop.get();
  op.net = &near_.calls();
  op.to = kProbes;
  op.plan = {workload};
  op.completion = [](Op& ended) {
    const auto& self = static_cast<Probe&>(ended);
    self.loop->complete(*self.over, ended.status);
  };
  const Status status = engine::thread_caller().call(*near_.loop, [&](Op& done) {
    op.over = &done;
    probe::probe(*near_.loop, op);
  });
  if (!status.ok()) {
    return Failure{status, fmt::format("calls over loopback fail: {}", status.name())};
  }
  if (devices_ != nullptr && !calls_go_by_rdma()) {
    return Failure{Code::peer_gone, "the queue pair was lost while calls were measured"};
  }
  return op.figures.front();
}

Figures Nodes::read(const Reads& asked, std::chrono::milliseconds duration) {
  Runner runner{.loop = near_.loop.get(),
                .net = &near_.calls(),
                .verify = asked.verify,
                .end = now() + duration,
                .left = asked.depth};
  std::vector<std::unique_ptr<Read>> reads;
  const uint64_t calls = enters();
  const double near_before = processor_time(near_.thread.native_handle());
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
  }
  (void)engine::thread_caller().call(*near_.loop, [&](Op& done) {
    runner.over = &done;
    for (const auto& read : reads) runner.net->call(*read);
  });
  const double seconds = seconds_since(start);
  const auto done = static_cast<double>(runner.done);
  return {.rate = done / seconds,
          .calls = static_cast<double>(enters() - calls) / done,
          .near_us = (processor_time(near_.thread.native_handle()) - near_before) / done * 1e6,
          .far_us = (processor_time(far_.thread()) - far_before) / done * 1e6};
}

}  // namespace penstock::loopback
