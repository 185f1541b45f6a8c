// The contract of engine::Net, held by the network within a process, by the simulated one, by TCP
// and by verbs alike; by these on a simulated fabric, and where there is one on a real device.
#include <atomic>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

#include "penstock/disk.h"
#include "penstock/net.h"
#include "penstock/sim.h"
#include "penstock/tcp.h"
#include "penstock/testing.h"
#include "penstock/testing_verbs.h"
#include "penstock/testing_wires.h"
#include "penstock/verbs.h"

namespace penstock::sim {
namespace {

using engine::Access;
using engine::Address;
using engine::CallOp;
using engine::IncomingCall;
using engine::Loop;
using engine::MemoryRef;
using engine::Op;
using engine::TransferOp;

constexpr Address kService{NodeId{2}, 1};

enum Method : uint16_t {
  kEcho = 1,   // the request back
  kPlace = 2,  // fills exposure 0 with the request's first byte
  kFetch = 3,  // answers with the first 8 bytes of exposure 0
  kLong = 4,   // answers with kNetMessageMax bytes
  kHold = 5,   // answers when kRelease comes
  kRelease = 6,
  kTransfer = 7,  // the request is a Plan: a transfer as it says; its status is the answer
  kFail = 8,
  kWho = 9,  // answers with the node that called
};

struct Plan {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t exposure = 0;
  bool place = false;
};

// Everything that a test wants of it is said by the method, so that it may run in another thread.
class TestService final : public engine::Service {
 public:
  void on_call(IncomingCall& call) override {
    switch (call.method) {
      case kEcho:
        return call.reply(Code::ok, call.request);
      case kPlace:
        return move(call, true);
      case kFetch:
        return move(call, false);
      case kLong:
        return call.reply(Code::ok, std::array<std::byte, engine::kNetMessageMax>{});
      case kHold:
        held_.push_back(&call);
        return;
      case kRelease:
        release();
        return call.reply(Code::ok, {});
      case kTransfer: {
        Plan plan;
        std::memcpy(&plan, call.request.data(), sizeof plan);
        return transfer(call, plan);
      }
      case kWho: {
        const NodeId caller = call.peer().node;
        return call.reply(Code::ok, std::as_bytes(std::span(&caller, 1)));
      }
      default:
        return call.reply(Code::not_empty, {});
    }
  }

  void release() {
    for (IncomingCall* held : std::exchange(held_, {})) held->reply(Code::stale, {});
  }

 private:
  struct Transfer final : TransferOp {
    std::vector<std::byte> bytes;
  };

  void move(IncomingCall& call, bool place) {
    const uint64_t length = call.exposure_length(0);
    if (const auto memory = call.direct(0)) {
      if (place) std::memset(memory->data, std::to_integer<int>(call.request[0]), length);
      return call.reply(Code::ok, place ? Bytes() : Bytes(memory->bytes()).first(8));
    }
    transfer(call, {0, length, 0, place});
  }

  void transfer(IncomingCall& call, const Plan& plan) {
    auto* op = new Transfer;
    op->bytes.assign(plan.length, call.request[0]);
    op->call = &call;
    op->exposure = plan.exposure;
    op->exposure_offset = plan.offset;
    op->local = {op->bytes.data(), plan.length, engine::kNoBuffer, engine::MemoryKind::host};
    op->completion = [](Op& done) {
      const std::unique_ptr<Transfer> self(static_cast<Transfer*>(&done));
      const bool answer = self->call->method == kFetch && self->status.ok();
      self->call->reply(self->status, answer ? Bytes(self->bytes).first(8) : Bytes());
    };
    if (plan.place) {
      call.place(*op);
    } else {
      call.fetch(*op);
    }
  }

  std::vector<IncomingCall*> held_;
};

// A caller's Net and its loop; the service is somewhere.
class Wires {
 public:
  virtual ~Wires() = default;
  virtual Loop& loop() = 0;
  virtual engine::Net& net() = 0;
  virtual NodeId caller() = 0;
  // Runs `action` in the service's loop and waits for it.
  virtual void at_service(const std::function<void(engine::Net&)>& action) = 0;
  TestService& service() { return service_; }

 protected:
  TestService service_;
};

// Caller and service in one loop.
class OneLoop final : public Wires {
 public:
  OneLoop() { net_.serve(kService, service_); }
  NodeId caller() override { return NodeId{5}; }
  Loop& loop() override { return loop_; }
  engine::Net& net() override { return net_; }
  void at_service(const std::function<void(engine::Net&)>& action) override { action(net_); }

 private:
  engine::SeededRandom random_{1};
  engine::FutexParker parker_{engine::system_clock()};
  Loop loop_{engine::system_clock(), random_, parker_};
  net::LocalNetwork network_{NodeId{5}};
  net::LocalNet net_{network_, loop_};
};

class TwoThreads final : public Wires {
 public:
  TwoThreads() {
    far_.net.serve(kService, service_);
    thread_ = std::thread([this] { far_.loop.run(); });
  }
  ~TwoThreads() override {
    far_.loop.stop();
    thread_.join();
  }
  NodeId caller() override { return NodeId{6}; }
  Loop& loop() override { return near_.loop; }
  engine::Net& net() override { return near_.net; }
  void at_service(const std::function<void(engine::Net&)>& action) override {
    (void)engine::thread_caller().call(far_.loop, [&](Op& done) {
      action(far_.net);
      far_.loop.complete(done, Code::ok);
    });
  }

 private:
  struct Side {
    explicit Side(net::LocalNetwork& network) : net(network, loop) {}
    engine::SeededRandom random{1};
    engine::FutexParker parker{engine::system_clock()};
    Loop loop{engine::system_clock(), random, parker};
    net::LocalNet net;
  };
  net::LocalNetwork network_{NodeId{6}};
  Side near_{network_};
  Side far_{network_};
  std::thread thread_;
};

class Simulated final : public Wires {
 public:
  Simulated() { far_.serve(kService, service_); }
  NodeId caller() override { return NodeId{1}; }
  Loop& loop() override { return near_loop_; }
  engine::Net& net() override { return near_; }
  void at_service(const std::function<void(engine::Net&)>& action) override { action(far_); }

 private:
  SimWorld world_{1};
  SimLoop near_loop_{world_};
  SimLoop far_loop_{world_};
  SimNetwork network_{world_};
  SimNet near_{network_, near_loop_, NodeId{1}};
  SimNet far_{network_, far_loop_, NodeId{2}};
};

// A node whose one loop calls and serves over sockets.
class TcpNode {
 public:
  TcpNode(NodeId node, const tcp::Resolver& resolver, bool sealed)
      : network_(configure(node, resolver, sealed)),
        net_(std::move(*tcp::TcpNet::create(network_, loop_, driver_->parker()))) {}
  ~TcpNode() {
    listener_.reset();
    net_->close();
    while (loop_.poll()) {
    }
    net_.reset();
    loop_.remove(disk_);
  }

  tcp::SocketAddress listen() {
    const auto any = tcp::SocketAddress::parse("127.0.0.1:0");
    listener_ = std::move(*tcp::TcpListener::listen(network_, *net_, *any));
    return listener_->address();
  }
  Loop& loop() { return loop_; }
  engine::Net& net() { return *net_; }

 private:
  static tcp::NetworkConfig configure(NodeId node, const tcp::Resolver& resolver, bool sealed) {
    tcp::NetworkConfig config;
    config.identity.node = node;
    config.identity.lowest_version = config.identity.highest_version = tcp::kVersion;
    config.resolver = &resolver;
    if (sealed) config.credentials = test::credentials_of(node);
    return config;
  }

  test::ScratchDirectory directory_;
  engine::SeededRandom random_{1};
  std::unique_ptr<disk::DiskDriver> driver_ =
      std::move(*disk::DiskDriver::create({.root = directory_.path()}));
  Loop loop_{engine::system_clock(), random_, driver_->parker()};
  engine::Disk& disk_{driver_->attach(loop_)};
  tcp::TcpNetwork network_;
  std::unique_ptr<tcp::TcpNet> net_;
  std::unique_ptr<tcp::TcpListener> listener_;
};

class OneAddress final : public tcp::Resolver {
 public:
  std::vector<tcp::SocketAddress> addresses_of(NodeId) const override { return {address}; }
  tcp::SocketAddress address;
};

class Tcp final : public Wires {
 public:
  explicit Tcp(bool sealed)
      : near_(NodeId{1}, resolver_, sealed), far_(NodeId{2}, resolver_, sealed) {
    far_.net().serve(kService, service_);
    resolver_.address = far_.listen();
    thread_ = std::thread([this] { far_.loop().run(); });
  }
  ~Tcp() override {
    far_.loop().stop();
    thread_.join();
  }
  NodeId caller() override { return NodeId{1}; }
  Loop& loop() override { return near_.loop(); }
  engine::Net& net() override { return near_.net(); }
  void at_service(const std::function<void(engine::Net&)>& action) override {
    (void)engine::thread_caller().call(far_.loop(), [&](Op& done) {
      action(far_.net());
      far_.loop().complete(done, Code::ok);
    });
  }

 private:
  OneAddress resolver_;
  TcpNode near_;
  TcpNode far_;
  std::thread thread_;
};

// Verbs on a simulated fabric, which is one thread's: both nodes are in one loop.
class VerbsFabric final : public Wires, private verbs::Introducer {
 public:
  VerbsFabric() { far_->serve(kService, service_); }
  ~VerbsFabric() override {
    near_->close();
    far_->withdraw(kService);
    far_->close();
    while (loop_.poll()) {
    }
  }
  NodeId caller() override { return NodeId{1}; }
  Loop& loop() override { return loop_; }
  engine::Net& net() override { return *near_; }
  void at_service(const std::function<void(engine::Net&)>& action) override { action(*far_); }

 private:
  void introduce(verbs::Introduction& introduction) override {
    const auto answer = far_->accept({caller()}, introduction.to.service, introduction.ours);
    if (answer) introduction.theirs = *answer;
    loop_.complete(introduction, answer ? Status() : answer.error());
  }
  std::unique_ptr<verbs::VerbsNet> make(NodeId node, verbs::Provider& device) {
    verbs::NetConfig config;
    config.self = node;
    config.introducer = this;
    return std::move(*verbs::VerbsNet::create(config, device, loop_, nullptr));
  }

  engine::SeededRandom random_{1};
  engine::FutexParker parker_{engine::system_clock()};
  Loop loop_{engine::system_clock(), random_, parker_};
  test::SimFabric fabric_{1};
  test::SimDevice near_device_{fabric_};
  test::SimDevice far_device_{fabric_};
  std::unique_ptr<verbs::VerbsNet> near_ = make(NodeId{1}, near_device_);
  std::unique_ptr<verbs::VerbsNet> far_ = make(NodeId{2}, far_device_);
};

// Verbs on the first device of this machine, between two threads.
class VerbsDevice final : public Wires, private verbs::Introducer {
 public:
  VerbsDevice() {
    far_.net->serve(kService, service_);
    thread_ = std::thread([this] { far_.loop.run(); });
  }
  ~VerbsDevice() override {
    near_.net->close();
    at_service([](engine::Net& net) { static_cast<verbs::VerbsNet&>(net).close(); });
    far_.loop.stop();
    thread_.join();
  }
  NodeId caller() override { return NodeId{1}; }
  Loop& loop() override { return near_.loop; }
  engine::Net& net() override { return *near_.net; }
  void at_service(const std::function<void(engine::Net&)>& action) override {
    (void)engine::thread_caller().call(far_.loop, [&](Op& done) {
      action(*far_.net);
      far_.loop.complete(done, Code::ok);
    });
  }

 private:
  struct Node {
    Node(NodeId node, verbs::Introducer& introducer) {
      verbs::NetConfig config;
      config.self = node;
      config.introducer = &introducer;
      net = std::move(*verbs::VerbsNet::create(config, *device, loop, &driver->parker()));
    }
    ~Node() {
      net.reset();
      while (loop.poll()) {
      }
      loop.remove(disk);
    }
    test::ScratchDirectory directory;
    engine::SeededRandom random{1};
    std::unique_ptr<disk::DiskDriver> driver =
        std::move(*disk::DiskDriver::create({.root = directory.path()}));
    Loop loop{engine::system_clock(), random, driver->parker()};
    engine::Disk& disk{driver->attach(loop)};
    std::unique_ptr<verbs::Provider> device = std::move(*verbs::open_device({}));
    std::unique_ptr<verbs::VerbsNet> net;
  };

  void introduce(verbs::Introduction& introduction) override {
    struct Question : Op {
      VerbsDevice* self = nullptr;
      verbs::Introduction* introduction = nullptr;
    };
    auto* const question = new Question;
    question->self = this;
    question->introduction = &introduction;
    question->completion = [](Op& op) {
      const std::unique_ptr<Question> asked(static_cast<Question*>(&op));
      verbs::Introduction& wanted = *asked->introduction;
      const auto answer =
          asked->self->far_.net->accept({NodeId{1}}, wanted.to.service, wanted.ours);
      if (answer) wanted.theirs = *answer;
      asked->self->near_.loop.complete_remote(wanted, answer ? Status() : answer.error());
    };
    far_.loop.complete_remote(*question, Code::ok);
  }

  Node near_{NodeId{1}, *this};
  Node far_{NodeId{2}, *this};
  std::thread thread_;
};

struct Call : CallOp {
  std::array<std::byte, 64> request_bytes{};
  std::array<std::byte, 64> response_bytes{};
  int completions = 0;

  explicit Call(Method wanted, Address address = kService) {
    to = address;
    method = wanted;
    request = request_bytes;
    response = response_bytes;
    completion = [](Op& op) { ++static_cast<Call&>(op).completions; };
  }
  void expose(uint32_t index, MutableBytes memory, Access access) {
    exposures[index] = {{memory.data(), memory.size(), engine::kNoBuffer, {}}, access};
    exposure_count = std::max(exposure_count, index + 1);
  }
};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Wires>()> make;
};

class NetConformance : public testing::TestWithParam<Kind> {
 protected:
  NetConformance() : wires_(GetParam().make()) {}

  void finish(Call& call, int times = 1) {
    while (call.completions < times) wires_->loop().poll_or_park(engine::kNever);
  }
  Status run(Call& call) {
    wires_->net().call(call);
    finish(call, call.completions + 1);
    return call.status;
  }

  std::unique_ptr<Wires> wires_;
};

TEST_P(NetConformance, carries_request_and_response) {
  Call call(kEcho);
  for (size_t i = 0; i < 64; ++i) call.request_bytes[i] = static_cast<std::byte>(i * 3);
  wires_->net().call(call);
  EXPECT_EQ(call.completions, 0) << "completed inside call()";
  finish(call);
  EXPECT_TRUE(call.status.ok());
  EXPECT_EQ(call.response_length, 64u);
  EXPECT_EQ(call.response_bytes, call.request_bytes);
}

TEST_P(NetConformance, the_service_is_told_which_node_called) {
  Call call(kWho);
  ASSERT_TRUE(run(call).ok());
  NodeId told;
  ASSERT_EQ(call.response_length, sizeof told);
  std::memcpy(&told, call.response_bytes.data(), sizeof told);
  EXPECT_EQ(told, wires_->caller());
}

TEST_P(NetConformance, the_status_is_the_services) {
  Call call(kFail);
  EXPECT_EQ(run(call), Status(Code::not_empty));
  EXPECT_EQ(call.response_length, 0u);
}

TEST_P(NetConformance, an_operation_is_used_again_and_again) {
  Call call(kEcho);
  for (int i = 0; i < 200; ++i) {
    call.request_bytes[7] = static_cast<std::byte>(i);
    ASSERT_TRUE(run(call).ok());
    ASSERT_EQ(call.response_bytes[7], static_cast<std::byte>(i));
  }
}

TEST_P(NetConformance, the_service_places_into_exposed_memory_and_fetches_from_it) {
  std::vector<std::byte> memory(100'000);
  Call place(kPlace);
  place.request_bytes[0] = std::byte{0x77};
  place.expose(0, memory, Access::place);
  ASSERT_TRUE(run(place).ok());
  for (const std::byte byte : memory) ASSERT_EQ(byte, std::byte{0x77});
  memory[5] = std::byte{9};
  Call fetch(kFetch);
  fetch.expose(0, memory, Access::fetch);
  ASSERT_TRUE(run(fetch).ok());
  ASSERT_EQ(fetch.response_length, 8u);
  EXPECT_EQ(fetch.response_bytes[5], std::byte{9});
  EXPECT_EQ(fetch.response_bytes[6], std::byte{0x77});
}

TEST_P(NetConformance, transfers_outside_the_exposure_are_refused) {
  std::vector<std::byte> in(4096), out(4096);
  const auto attempt = [&](Plan plan) {
    Call call(kTransfer);
    std::memcpy(call.request_bytes.data(), &plan, sizeof plan);
    call.expose(0, in, Access::place);
    call.expose(1, out, Access::fetch);
    return run(call);
  };
  EXPECT_EQ(attempt({0, 4096, 0, true}), Status(Code::ok));
  EXPECT_EQ(attempt({4000, 96, 0, true}), Status(Code::ok));
  EXPECT_EQ(attempt({0, 4096, 1, false}), Status(Code::ok));
  EXPECT_EQ(attempt({4096, 0, 1, false}), Status(Code::ok));
  EXPECT_EQ(attempt({4000, 97, 0, true}), Status(Code::invalid_argument));
  EXPECT_EQ(attempt({UINT64_MAX, 2, 0, true}), Status(Code::invalid_argument));
  EXPECT_EQ(attempt({0, 1, 2, true}), Status(Code::invalid_argument));
  EXPECT_EQ(attempt({0, 1, 1, true}), Status(Code::access_denied));
  EXPECT_EQ(attempt({0, 1, 0, false}), Status(Code::access_denied));
}

TEST_P(NetConformance, too_large_calls_are_refused_at_once) {
  std::array<std::byte, engine::kNetMessageMax + 1> large{};
  Call request(kEcho);
  request.request = large;
  EXPECT_EQ(run(request), Status(Code::invalid_argument));
  Call response(kEcho);
  response.response = large;
  EXPECT_EQ(run(response), Status(Code::invalid_argument));
  Call exposures(kEcho);
  exposures.exposure_count = engine::kNetExposuresMax + 1;
  EXPECT_EQ(run(exposures), Status(Code::invalid_argument));
}

TEST_P(NetConformance, a_response_that_does_not_fit_is_a_bad_message) {
  Call call(kLong);
  EXPECT_EQ(run(call), Status(Code::bad_message));
  EXPECT_EQ(call.response_length, 0u);
}

TEST_P(NetConformance, nobody_at_the_address_means_peer_gone) {
  Call call(kEcho, {NodeId{2}, 99});
  EXPECT_EQ(run(call), Status(Code::peer_gone));
}

TEST_P(NetConformance, a_deadline_that_has_passed_means_timed_out) {
  Call call(kEcho);
  call.deadline = wires_->loop().clock().now();
  EXPECT_EQ(run(call), Status(Code::timed_out));
}

TEST_P(NetConformance, held_calls_end_once_also_after_withdraw) {
  Call held[3] = {Call(kHold), Call(kHold), Call(kHold)};
  for (Call& call : held) wires_->net().call(call);
  // Another network may let calls overtake each other: release until all are back.
  Call release(kRelease);
  ASSERT_TRUE(run(release).ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(run(release).ok());
  for (Call& call : held) {
    finish(call);
    EXPECT_EQ(call.status, Status(Code::stale));
  }
  wires_->net().call(held[0]);
  Call echo(kEcho);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(run(echo).ok());
  wires_->at_service([](engine::Net& net) { net.withdraw(kService); });
  EXPECT_EQ(run(echo), Status(Code::peer_gone));
  EXPECT_EQ(held[0].completions, 1) << "its service still has it";
  wires_->at_service([this](engine::Net&) { wires_->service().release(); });
  finish(held[0], 2);
  EXPECT_EQ(held[0].status, Status(Code::stale));
}

TEST_P(NetConformance, many_calls_at_once_each_get_their_own_answer) {
  struct Stream : Call {
    engine::Net* net = nullptr;
    int left = 200;
    int bad = 0;
    Stream() : Call(kEcho) {}
  };
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 32; ++i) {
    Stream& stream = *streams.emplace_back(std::make_unique<Stream>());
    stream.net = &wires_->net();
    stream.request_bytes[0] = static_cast<std::byte>(i);
    stream.completion = [](Op& op) {
      auto& self = static_cast<Stream&>(op);
      self.bad += !self.status.ok() || self.response_bytes != self.request_bytes;
      if (--self.left == 0) return;
      self.request_bytes[1] = static_cast<std::byte>(self.left);
      self.net->call(self);
    };
    wires_->net().call(stream);
  }
  const auto running = [&] {
    return std::any_of(streams.begin(), streams.end(), [](auto& s) { return s->left != 0; });
  };
  while (running()) wires_->loop().poll_or_park(engine::kNever);
  for (const auto& stream : streams) EXPECT_EQ(stream->bad, 0);
}

std::vector<Kind> kinds() {
  std::vector<Kind> all{{"one_loop", [] { return std::make_unique<OneLoop>(); }},
                        {"two_threads", [] { return std::make_unique<TwoThreads>(); }},
                        {"simulated", [] { return std::make_unique<Simulated>(); }},
                        {"tcp", [] { return std::make_unique<Tcp>(false); }},
                        {"tcp_sealed", [] { return std::make_unique<Tcp>(true); }},
                        {"verbs_fabric", [] { return std::make_unique<VerbsFabric>(); }}};
  // tools/verbs_guest.sh has one.
  if (!verbs::device_names().empty()) {
    all.push_back({"verbs_device", [] { return std::make_unique<VerbsDevice>(); }});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, NetConformance, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace penstock::sim
