// The door: who comes in, who is told why not, and who is put out.
#include "../limits.h"
#include "tests/node.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace penstock::tcp {
namespace {

using engine::Loop;
using std::chrono::milliseconds;

class TcpDoor : public testing::Test {
 protected:
  TcpDoor() {
    NetworkConfig config = config_of(kFar, table_);
    config.identity.lowest_version = 0;
    config.patience.greeting = milliseconds(800);
    far_.emplace(config);
    far_->net().serve(kService, service_);
    address_ = far_->listen();
    table_.nodes[kFar] = {address_};
  }
  ~TcpDoor() override {
    far_->net().withdraw(kService);
    service_.release();
  }
  Loop* loop() { return &far_->loop(); }
  Refusal refused(const Hello& hello) {
    RawPeer peer = RawPeer::connect(address_);
    peer.send_hello(hello, {loop()});
    const auto frame = peer.receive({loop()});
    EXPECT_TRUE(frame && frame->header.kind == FrameKind::refusal);
    if (!frame) return Refusal();
    const auto refusal = decode_refused(frame->message);
    EXPECT_TRUE(refusal);
    EXPECT_EQ(refusal->text, refusal_name(refusal->reason));
    EXPECT_TRUE(peer.closed({loop()}));
    return refusal->reason;
  }
  RawPeer greeted(NodeId node) {
    RawPeer peer = RawPeer::connect(address_);
    peer.send_hello(hello_of(node, kService), {loop()});
    const auto frame = peer.receive({loop()});
    EXPECT_TRUE(frame && frame->header.kind == FrameKind::welcome);
    return peer;
  }

  Table table_;
  TestService service_;
  std::optional<Node> far_;
  SocketAddress address_;
};

TEST_F(TcpDoor, refuses_with_the_reason) {
  Hello hello = hello_of(kNear, kService);
  hello.cluster[3] = std::byte{1};
  EXPECT_EQ(refused(hello), Refusal::wrong_cluster);
  hello = hello_of(kNear, kService);
  hello.lowest_version = hello.highest_version = kVersion + 1;
  EXPECT_EQ(refused(hello), Refusal::wrong_version);
  EXPECT_EQ(refused(hello_of(kNear, {NodeId{3}, 7})), Refusal::wrong_node);
  EXPECT_EQ(refused(hello_of(kNear, {kFar, 8})), Refusal::no_service);
}

TEST_F(TcpDoor, lets_guests_call_what_is_open_to_them_only) {
  EXPECT_EQ(refused(hello_of(kGuest, kService)), Refusal::not_proven);
  NetworkConfig config = config_of(NodeId{3}, table_);
  config.open_to_guests = kService.service;
  Node open(config);
  open.net().serve({NodeId{3}, kService.service}, service_);
  open.net().serve({NodeId{3}, kService.service + 1}, service_);
  RawPeer peer = RawPeer::connect(open.listen());
  peer.send_hello(hello_of(kGuest, {NodeId{3}, kService.service}), {&open.loop()});
  const auto welcome = peer.receive({&open.loop()});
  EXPECT_TRUE(welcome && welcome->header.kind == FrameKind::welcome);
  RawPeer other = RawPeer::connect(open.listen());
  other.send_hello(hello_of(kGuest, {NodeId{3}, kService.service + 1}), {&open.loop()});
  const auto refusal = other.receive({&open.loop()});
  EXPECT_TRUE(refusal && refusal->header.kind == FrameKind::refusal);
  for (const uint32_t service : {kService.service, kService.service + 1}) {
    open.net().withdraw({NodeId{3}, service});
  }
}

TEST_F(TcpDoor, the_oldest_of_many_guests_goes_and_no_node_does) {
  Table table;
  NetworkConfig config = config_of(kFar, table);
  config.open_to_guests = kService.service;
  Node host(config);
  TestService service;
  host.net().serve(kService, service);
  const SocketAddress address = host.listen();
  const auto enter = [&](NodeId node) {
    RawPeer peer = RawPeer::connect(address);
    peer.send_hello(hello_of(node, kService), {&host.loop()});
    const auto frame = peer.receive({&host.loop()});
    EXPECT_TRUE(frame && frame->header.kind == FrameKind::welcome);
    return peer;
  };
  const auto is_served = [&](RawPeer& peer) {
    peer.send({.kind = FrameKind::request, .method = kEcho, .call = 1}, {}, {}, {&host.loop()});
    const auto frame = peer.receive({&host.loop()});
    return frame && frame->header.kind == FrameKind::response;
  };
  RawPeer node = enter(kNear);
  std::vector<RawPeer> guests;
  for (uint32_t i = 0; i < limits::kGuestsMax + 2; ++i) guests.push_back(enter(kGuest));
  EXPECT_TRUE(guests[0].closed({&host.loop()}));
  EXPECT_TRUE(guests[1].closed({&host.loop()}));
  EXPECT_TRUE(is_served(guests[2]));
  EXPECT_TRUE(is_served(guests.back()));
  EXPECT_TRUE(is_served(node));
  host.net().withdraw(kService);
}

TEST_F(TcpDoor, the_caller_keeps_the_reason) {
  NetworkConfig config = config_of(kNear, table_);
  config.identity.cluster[0] = std::byte{1};
  Node near(config);
  TestCall call(kEcho);
  near.net().call(call);
  run_until({loop(), &near.loop()}, [&] { return call.done(); });
  EXPECT_EQ(call.status, Status(Code::peer_gone));
  run_until({&near.loop()}, [&] {
    return near.net().peers().at(0).trouble.find("another cluster") != std::string::npos;
  });
}

TEST_F(TcpDoor, puts_out_who_sends_garbage) {
  std::array<std::byte, 64> garbage;
  garbage.fill(std::byte{0x47});
  RawPeer peer = RawPeer::connect(address_);
  peer.send(garbage, {loop()});
  (void)peer.receive({loop()});
  EXPECT_TRUE(peer.closed({loop()}));
  RawPeer later = greeted(kNear);
  later.send(garbage, {loop()});
  EXPECT_TRUE(later.closed({loop()}));
}

TEST_F(TcpDoor, puts_out_who_does_not_greet_in_time) {
  RawPeer silent = RawPeer::connect(address_);
  RawPeer half = RawPeer::connect(address_);
  half.send(Bytes(encode_header({.version = 0, .kind = FrameKind::hello, .message_bytes = 48})),
            {loop()});
  EXPECT_TRUE(silent.closed({loop()}));
  EXPECT_TRUE(half.closed({loop()}));
}

TEST_F(TcpDoor, hands_connections_to_the_loop_that_serves) {
  engine::SeededRandom random(1);
  test::ScratchDirectory directory;
  const auto driver = std::move(*disk::DiskDriver::create({.root = directory.path()}));
  Loop other(engine::system_clock(), random, driver->parker());
  engine::Disk& disk = driver->attach(other);
  auto net = std::move(*TcpNet::create(far_->network(), other, driver->parker()));
  TestService there;
  net->serve({kFar, 9}, there);
  RawPeer peer = RawPeer::connect(address_);
  peer.send_hello(hello_of(kNear, {kFar, 9}), {loop()});
  const auto welcome = peer.receive({loop(), &other});
  ASSERT_TRUE(welcome && welcome->header.kind == FrameKind::welcome);
  peer.send({.kind = FrameKind::request, .method = kEcho, .call = 1}, {}, {}, {&other});
  const auto response = peer.receive({&other});
  ASSERT_TRUE(response && response->header.kind == FrameKind::response);
  EXPECT_EQ(there.calls, 1);
  EXPECT_EQ(service_.calls, 0);
  // One that is on its way when the loop's net closes.
  RawPeer late = RawPeer::connect(address_);
  late.send_hello(hello_of(kNear, {kFar, 9}), {loop()});
  net->withdraw({kFar, 9});
  net->close();
  run_until({&other, loop()}, [&] { return !other.poll(); });
  (void)late.receive({loop(), &other});
  net.reset();
  other.remove(disk);
}

// So many files may this process have open, after asking for as many as there may be.
size_t files_max() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : 0;
}

TEST_F(TcpDoor, lets_one_in_past_thousands_who_do_not_greet) {
  if (files_max() < 4000) GTEST_SKIP() << "too few files may be open";
  std::vector<RawPeer> silent;
  for (int i = 0; i < 1500; ++i) {
    silent.push_back(RawPeer::connect(address_));
    if (i % 100 == 0) run_until({loop()}, [] { return true; });
  }
  RawPeer peer = greeted(kNear);
  peer.send({.kind = FrameKind::request, .method = kEcho, .call = 1}, {}, {}, {loop()});
  EXPECT_EQ(peer.receive({loop()})->header.kind, FrameKind::response);
}

TEST_F(TcpDoor, serves_ten_thousand_connections) {
  const size_t files = files_max();
  if (files < 3000) GTEST_SKIP() << "too few files may be open";
  // Both ends of each are in this process.
  const size_t count = std::min<size_t>(10'000, (files - 200) / 2);
  std::vector<RawPeer> peers;
  while (peers.size() < count) {
    peers.push_back(greeted(NodeId{static_cast<uint32_t>(100 + peers.size())}));
  }
  for (int round = 0; round < 2; ++round) {
    for (RawPeer& peer : peers) {
      peer.send({.kind = FrameKind::request, .method = kEcho, .call = 1}, {}, {}, {loop()});
    }
    for (RawPeer& peer : peers) {
      ASSERT_EQ(peer.receive({loop()})->header.kind, FrameKind::response);
    }
  }
  EXPECT_EQ(service_.calls, static_cast<int>(2 * count));
}

TEST(SocketAddress, is_read_and_written) {
  for (const std::string text : {"127.0.0.1:9180", "[::1]:1", "0.0.0.0:65535"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->text(), text);
  }
  for (const std::string text :
       {"", "localhost:1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:1x", "::1:5"}) {
    EXPECT_FALSE(SocketAddress::parse(text)) << text;
  }
}

}  // namespace
}  // namespace penstock::tcp
