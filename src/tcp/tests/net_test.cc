// What is the caller's and the server's to keep whatever the other side does.
#include "penstock/net.h"

#include "tests/node.h"

#include <cstring>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace penstock::tcp {
namespace {

using engine::Access;
using engine::Loop;
using std::chrono::milliseconds;

std::vector<std::byte> filled(size_t count, int with) {
  return std::vector<std::byte>(count, static_cast<std::byte>(with));
}

bool all_are(Bytes bytes, int with) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [with](std::byte byte) { return byte == static_cast<std::byte>(with); });
}

// A node that calls, and a server that the test plays.
class TcpCaller : public testing::Test {
 protected:
  explicit TcpCaller(int receive_buffer = 0, milliseconds silence = std::chrono::seconds(60))
      : server_(receive_buffer) {
    table_.nodes[kFar] = {server_.address()};
    NetworkConfig config = config_of(kNear, table_);
    config.patience.ping = milliseconds(50);
    config.patience.silence = silence;
    near_.emplace(config);
  }
  Loop* loop() { return &near_->loop(); }
  void finish(TestCall& call) {
    run_until({loop()}, [&] { return call.done(); });
  }
  // The next frame that is no ping.
  RawPeer::Frame next(RawPeer& peer) {
    while (true) {
      const RawPeer::Frame frame = next_of_any_kind(peer);
      if (frame.header.kind != FrameKind::ping) return frame;
      peer.send({.kind = FrameKind::pong}, {}, {}, {loop()});
    }
  }
  // The same while the peer is in the middle of a payload, of which a pong would become a part.
  RawPeer::Frame next_within_payload(RawPeer& peer) {
    while (true) {
      const RawPeer::Frame frame = next_of_any_kind(peer);
      if (frame.header.kind != FrameKind::ping) return frame;
    }
  }
  void respond(RawPeer& peer, uint64_t call) {
    peer.send({.kind = FrameKind::response, .call = call}, {}, {}, {loop()});
  }

  RawPeer::Frame next_of_any_kind(RawPeer& peer) {
    const auto frame = peer.receive({loop()});
    EXPECT_TRUE(frame);
    return frame.value_or(RawPeer::Frame());
  }

  Table table_;
  RawServer server_;
  std::optional<Node> near_;
};

TEST_F(TcpCaller, ends_a_call_when_its_peer_dies_in_the_middle_of_a_payload) {
  std::vector<std::byte> memory = filled(kMiB, 1);
  TestCall call(kPlace);
  call.expose(memory, Access::place);
  near_->net().call(call);
  RawPeer peer = server_.welcome({loop()});
  const RawPeer::Frame request = next(peer);
  ASSERT_EQ(request.header.kind, FrameKind::request);
  peer.send({.kind = FrameKind::data, .call = request.header.call, .payload_bytes = kMiB}, {},
            filled(kMiB / 2, 2), {loop()});
  EXPECT_FALSE(call.done());
  peer.close();
  finish(call);
  EXPECT_EQ(call.status, Status(Code::peer_gone));
  EXPECT_TRUE(all_are(Bytes(memory).subspan(kMiB / 2), 1)) << "bytes that never came";
}

// Takes no connection, and refuses none: its queue is full, and what comes is dropped.
class DeafPort {
 public:
  DeafPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const SocketAddress any = *SocketAddress::parse("127.0.0.1:0");
    const auto* const at = static_cast<const sockaddr*>(any.data());
    EXPECT_EQ(::bind(socket_.get(), at, any.length()), 0);
    EXPECT_EQ(::listen(socket_.get(), 0), 0);
    address_ = *SocketAddress::of_socket(socket_.get());
    for (UniqueFd& one : waiting_) {
      one = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::connect(one.get(), static_cast<const sockaddr*>(address_.data()), address_.length());
    }
  }
  const SocketAddress& address() const { return address_; }

 private:
  UniqueFd socket_;
  SocketAddress address_;
  std::array<UniqueFd, 3> waiting_;
};

TEST_F(TcpCaller, goes_on_to_the_next_address_when_one_does_not_answer) {
  const DeafPort deaf;
  table_.nodes[kFar].insert(table_.nodes[kFar].begin(), deaf.address());
  TestCall call(kEcho);
  near_->net().call(call);
  RawPeer peer = server_.welcome({loop()});
  respond(peer, next(peer).header.call);
  finish(call);
  EXPECT_TRUE(call.status.ok()) << call.status.name();
}

TEST_F(TcpCaller, leaves_memory_alone_once_a_call_timed_out_while_it_was_received) {
  std::vector<std::byte> memory = filled(kMiB, 1);
  TestCall call(kPlace);
  call.expose(memory, Access::place);
  TestCall other(kEcho);
  near_->net().call(other);
  RawPeer peer = server_.welcome({loop()});
  const uint64_t other_number = next(peer).header.call;
  call.deadline = loop()->clock().now() + milliseconds(200);
  near_->net().call(call);
  const uint64_t number = next(peer).header.call;
  peer.send({.kind = FrameKind::data, .call = number, .payload_bytes = kMiB}, {},
            filled(kMiB / 2, 2), {loop()});
  finish(call);
  EXPECT_EQ(call.status, Status(Code::timed_out));
  EXPECT_EQ(next_within_payload(peer).header.kind, FrameKind::abandon);

  // The memory is the caller's again.
  memory = filled(kMiB, 3);
  peer.send(filled(kMiB / 2, 2), {loop()});
  peer.send({.kind = FrameKind::data, .call = number, .payload_bytes = 4096}, {}, filled(4096, 2),
            {loop()});
  respond(peer, number);
  respond(peer, other_number);
  finish(other);
  EXPECT_TRUE(other.status.ok()) << "the connection goes on";
  EXPECT_TRUE(all_are(memory, 3));
  EXPECT_EQ(call.completions, 1);
}

// Its server takes little at once, so that a send of a MiB cannot end.
class TcpCallerOfSlowServer : public TcpCaller {
 protected:
  TcpCallerOfSlowServer() : TcpCaller(4096) {}
};

TEST_F(TcpCallerOfSlowServer, sends_no_byte_of_a_calls_memory_once_that_call_has_ended) {
  constexpr uint32_t kBytes = 16 * kMiB;
  std::vector<std::byte> memory = filled(kBytes, 1);
  TestCall call(kFetch);
  call.expose(memory, Access::fetch);
  call.deadline = loop()->clock().now() + milliseconds(300);
  near_->net().call(call);
  RawPeer peer = server_.welcome({loop()});
  const RawPeer::Frame request = next(peer);
  ASSERT_EQ(request.header.kind, FrameKind::request);
  ASSERT_EQ(request.header.payload_bytes, 0u) << "too much to come along";
  peer.send({.kind = FrameKind::want, .call = request.header.call, .length = kBytes, .transfer = 1},
            {}, {}, {loop()});
  finish(call);
  EXPECT_EQ(call.status, Status(Code::timed_out));
  memory = filled(kBytes, 3);
  uint64_t bytes = 0;
  RawPeer::Frame frame = next(peer);
  for (; frame.header.kind == FrameKind::data; frame = next(peer)) {
    ASSERT_EQ(frame.header.offset, bytes);
    bytes += frame.payload.size();
    ASSERT_TRUE(all_are(frame.payload, 1)) << "what its caller wrote there afterwards";
  }
  EXPECT_EQ(frame.header.kind, FrameKind::abandon);
  EXPECT_LT(bytes, kBytes) << "the send had ended before the call did: this shows nothing";
}

class TcpImpatientCaller : public TcpCaller {
 protected:
  TcpImpatientCaller() : TcpCaller(0, milliseconds(400)) {}
};

TEST_F(TcpImpatientCaller, ends_its_calls_when_nothing_is_heard_of_a_peer) {
  TestCall call(kEcho);
  near_->net().call(call);
  RawPeer peer = server_.welcome({loop()});
  ASSERT_EQ(peer.receive({loop()})->header.kind, FrameKind::request);
  ASSERT_EQ(peer.receive({loop()})->header.kind, FrameKind::ping) << "asked first";
  finish(call);
  EXPECT_EQ(call.status, Status(Code::peer_gone));
}

TEST_F(TcpCaller, loses_a_peer_that_breaks_the_protocol) {
  std::vector<std::byte> memory(4096);
  const auto attempt = [&](Header header, Bytes payload) {
    TestCall call(kPlace);
    call.expose(memory, Access::place);
    // A contact that has failed is left alone for a moment.
    near_->net().call(call);
    RawPeer peer = server_.welcome({loop()});
    const uint64_t number = next(peer).header.call;
    if (header.call != 0) header.call = number + header.call - 1;
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    peer.send(header, {}, payload, {loop()});
    finish(call);
    return call.status;
  };
  const std::vector<std::byte> bytes(4096);
  const Status broken = Code::peer_gone;
  EXPECT_EQ(attempt({.kind = FrameKind::data, .call = 1, .offset = 1}, bytes), broken);
  EXPECT_EQ(attempt({.kind = FrameKind::data, .call = 1, .exposure = 1}, bytes), broken);
  EXPECT_EQ(attempt({.kind = FrameKind::data, .call = 1, .transfer = 1}, bytes), broken);
  EXPECT_EQ(attempt({.kind = FrameKind::data, .call = 2}, bytes), broken);
  EXPECT_EQ(attempt({.kind = FrameKind::want, .call = 1, .length = 1, .transfer = 1}, {}), broken);
  EXPECT_EQ(attempt({.kind = FrameKind::response, .call = 2}, {}), broken);
  EXPECT_EQ(attempt({.kind = FrameKind::abandon, .call = 1}, {}), broken);
}

TEST_F(TcpCaller, takes_back_what_is_not_on_its_way_and_nothing_else) {
  TestCall first(kEcho), second(kEcho);
  near_->net().call(first);
  near_->net().call(second);
  near_->net().cancel(first);
  near_->net().cancel(first);
  finish(first);
  EXPECT_EQ(first.status, Status(Code::cancelled));
  RawPeer peer = server_.welcome({loop()});
  const RawPeer::Frame request = next(peer);
  near_->net().cancel(second);
  respond(peer, request.header.call);
  finish(second);
  EXPECT_TRUE(second.status.ok());
  near_->net().cancel(second);
  EXPECT_EQ(first.completions, 1);
}

TEST_F(TcpCaller, lets_no_more_calls_be_in_progress_than_its_server_allows) {
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 65; ++i) {
    near_->net().call(*calls.emplace_back(std::make_unique<TestCall>(kEcho)));
  }
  RawPeer peer = server_.welcome({loop()});
  std::vector<uint64_t> numbers;
  for (int i = 0; i < 64; ++i) numbers.push_back(next(peer).header.call);
  // Had it sent another, that would come before the answer to this.
  peer.send({.kind = FrameKind::ping, .call = 5}, {}, {}, {loop()});
  EXPECT_EQ(next(peer).header.kind, FrameKind::pong);
  respond(peer, numbers[20]);
  EXPECT_EQ(next(peer).header.kind, FrameKind::request);
  peer.close();
  for (const auto& call : calls) finish(*call);
}

// Two nodes over loopback.
class TcpPair : public testing::Test {
 protected:
  explicit TcpPair(milliseconds silence = std::chrono::seconds(60)) {
    NetworkConfig near = config_of(kNear, table_);
    NetworkConfig far = config_of(kFar, table_);
    near.patience = far.patience = {.connect = std::chrono::seconds(20),
                                    .greeting = milliseconds(300),
                                    .ping = milliseconds(20),
                                    .silence = silence,
                                    .stall = milliseconds(400),
                                    .idle = milliseconds(700)};
    near_.emplace(near);
    begin(far);
  }
  ~TcpPair() override { end(); }
  void begin(const NetworkConfig& config) {
    far_.emplace(config);
    far_->net().serve(kService, service_);
    table_.nodes[kFar] = {far_->listen()};
  }
  void end() {
    if (!far_) return;
    far_->net().withdraw(kService);
    service_.release();
    far_->stop_listening();
    run_until({&far_->loop()}, [&] { return service_.transfers_under_way == 0; });
    far_.reset();
  }
  Status run(TestCall& call) {
    near_->net().call(call);
    run_until({&near_->loop(), &far_->loop()}, [&] { return call.done(); });
    return call.status;
  }

  Table table_;
  TestService service_;
  std::optional<Node> near_;
  std::optional<Node> far_;
};

TEST_F(TcpPair, moves_large_and_odd_pieces_both_ways) {
  for (const size_t bytes :
       {1ul, 4095ul, 16384ul, 16385ul, 65536ul, 70'001ul, 1'048'576ul, 1'048'577ul, 5'000'011ul}) {
    std::vector<std::byte> memory = filled(bytes + 2, 1);
    TestCall place(kPlace);
    place.request_bytes[0] = std::byte{7};
    place.expose(MutableBytes(memory).subspan(1, bytes), Access::place);
    ASSERT_TRUE(run(place).ok()) << bytes;
    EXPECT_TRUE(all_are(Bytes(memory).subspan(1, bytes), 7)) << bytes;
    EXPECT_EQ(memory.front(), std::byte{1});
    EXPECT_EQ(memory.back(), std::byte{1});
    TestCall fetch(kFetch);
    fetch.expose(MutableBytes(memory).subspan(1, bytes), Access::fetch);
    ASSERT_TRUE(run(fetch).ok()) << bytes;
    uint32_t checksum = 0;
    std::memcpy(&checksum, fetch.response_bytes.data(), sizeof checksum);
    EXPECT_EQ(checksum, crc32c(Bytes(memory).subspan(1, bytes)));
  }
}

TEST_F(TcpPair, brings_along_what_is_small_enough) {
  for (const auto& [bytes, comes] : {std::pair(16384, 1), std::pair(16385, 0)}) {
    std::vector<std::byte> memory(static_cast<size_t>(bytes));
    TestCall call(kDirect);
    call.expose(memory, Access::fetch);
    ASSERT_TRUE(run(call).ok());
    EXPECT_EQ(call.response_bytes[0], static_cast<std::byte>(comes)) << bytes;
  }
}

class TcpImpatientPair : public TcpPair {
 protected:
  TcpImpatientPair() : TcpPair(milliseconds(800)) {}
};

TEST_F(TcpImpatientPair, keeps_a_connection_whose_call_takes_longer_than_silence_may) {
  TestCall held(kHold);
  near_->net().call(held);
  const engine::Time until = near_->loop().clock().now() + milliseconds(2000);
  run_until({&near_->loop(), &far_->loop()}, [&] { return near_->loop().clock().now() >= until; });
  EXPECT_FALSE(held.done());
  service_.release();
  run_until({&near_->loop(), &far_->loop()}, [&] { return held.done(); });
  EXPECT_EQ(held.status, Status(Code::stale));
}

TEST_F(TcpPair, closes_a_connection_that_nobody_uses_and_makes_another) {
  TestCall call(kEcho);
  ASSERT_TRUE(run(call).ok());
  ASSERT_TRUE(near_->net().peers().at(0).connected);
  run_until({&near_->loop(), &far_->loop()}, [&] { return !near_->net().peers().at(0).connected; });
  TestCall again(kEcho);
  EXPECT_TRUE(run(again).ok());
}

TEST_F(TcpPair, makes_another_connection_while_one_still_ends) {
  TestCall call(kEcho);
  ASSERT_TRUE(run(call).ok());
  // The turn in which it is closed for being idle: its socket is still open.
  while (near_->net().peers().at(0).connected) (void)near_->loop().poll();
  TestCall again(kEcho);
  EXPECT_TRUE(run(again).ok());
}

TEST_F(TcpPair, reaches_a_peer_that_came_back_elsewhere) {
  TestCall call(kEcho), held(kHold);
  ASSERT_TRUE(run(call).ok());
  near_->net().call(held);
  run_until({&near_->loop(), &far_->loop()}, [&] { return service_.held.size() == 1; });
  end();
  run_until({&near_->loop()}, [&] { return held.done(); });
  NetworkConfig config = config_of(kFar, table_);
  config.identity.incarnation = Incarnation{2};
  begin(config);
  run_until({&near_->loop(), &far_->loop()}, [&] {
    TestCall attempt(kEcho);
    return run(attempt).ok();
  });
  ASSERT_EQ(near_->net().peers().size(), 1u);
  EXPECT_EQ(near_->net().peers()[0].incarnation, Incarnation{2});
}

TEST_F(TcpPair, says_why_a_peer_is_not_reached) {
  table_.nodes[kFar].clear();
  TestCall nowhere(kEcho);
  EXPECT_EQ(run(nowhere), Status(Code::peer_gone));
  run_until({&near_->loop()}, [&] {
    const auto peers = near_->net().peers();
    return !peers.empty() && peers[0].trouble == "no address is known";
  });
}

TEST_F(TcpPair, ends_what_a_slow_reader_holds_and_serves_others_meanwhile) {
  RawPeer slow = RawPeer::connect(table_.nodes[kFar][0]);
  slow.send_hello(hello_of(NodeId{8}, kService), {&far_->loop()});
  ASSERT_EQ(slow.receive({&far_->loop()})->header.kind, FrameKind::welcome);
  Request request;
  request.span_count = 1;
  request.spans[0] = {8 * kMiB, Access::place, false};
  const std::array<std::byte, 1> first{};
  request.bytes = first;
  std::array<std::byte, limits::kMessageBytesMax> message;
  const uint32_t length = encode_request(request, message);
  for (uint64_t i = 1; i <= 8; ++i) {
    slow.send({.kind = FrameKind::request, .method = kPlace, .call = i, .exposure = 1},
              Bytes(message).first(length), {}, {&far_->loop()});
  }
  run_until({&far_->loop()}, [&] { return service_.calls == 8; });
  TestCall call(kEcho);
  EXPECT_TRUE(run(call).ok());
  run_until({&far_->loop(), &near_->loop()}, [&] { return service_.transfers_under_way == 0; });
  EXPECT_GT(service_.transfers_failed, 0);
  TestCall again(kEcho);
  EXPECT_TRUE(run(again).ok());
}

TEST_F(TcpPair, answers_abandoned_calls_and_ends_their_transfers) {
  RawPeer caller = RawPeer::connect(table_.nodes[kFar][0]);
  caller.send_hello(hello_of(NodeId{8}, kService), {&far_->loop()});
  ASSERT_EQ(caller.receive({&far_->loop()})->header.kind, FrameKind::welcome);
  Request request;
  request.span_count = 1;
  request.spans[0] = {kMiB, Access::fetch, false};
  const std::array<std::byte, 1> first{};
  request.bytes = first;
  std::array<std::byte, limits::kMessageBytesMax> message;
  const uint32_t length = encode_request(request, message);
  caller.send({.kind = FrameKind::request, .method = kFetch, .call = 5, .exposure = 1},
              Bytes(message).first(length), {}, {&far_->loop()});
  const auto want = caller.receive({&far_->loop()});
  ASSERT_EQ(want->header.kind, FrameKind::want);
  EXPECT_EQ(want->header.length, kMiB);
  caller.send({.kind = FrameKind::abandon, .call = 5}, {}, {}, {&far_->loop()});
  const auto response = caller.receive({&far_->loop()});
  ASSERT_EQ(response->header.kind, FrameKind::response);
  EXPECT_EQ(response->header.call, 5u);
  EXPECT_EQ(static_cast<Code>(response->header.method), Code::peer_gone);
  // Bytes for a want that is void.
  caller.send({.kind = FrameKind::data, .call = 5, .payload_bytes = 1, .transfer = 1}, {},
              filled(1, 1), {&far_->loop()});
  EXPECT_TRUE(caller.closed({&far_->loop()}));
}

TEST_F(TcpPair, loses_a_caller_with_more_calls_than_it_may_have) {
  RawPeer caller = RawPeer::connect(table_.nodes[kFar][0]);
  caller.send_hello(hello_of(NodeId{8}, kService), {&far_->loop()});
  ASSERT_EQ(caller.receive({&far_->loop()})->header.kind, FrameKind::welcome);
  for (uint64_t i = 1; i <= limits::kCallsMax; ++i) {
    caller.send({.kind = FrameKind::request, .method = kHold, .call = i}, {}, {}, {&far_->loop()});
  }
  run_until({&far_->loop()}, [&] { return service_.held.size() == limits::kCallsMax; });
  caller.send({.kind = FrameKind::request, .method = kHold, .call = 5000}, {}, {}, {&far_->loop()});
  EXPECT_TRUE(caller.closed({&far_->loop()}));
  EXPECT_EQ(service_.held.size(), limits::kCallsMax);
}

TEST(TcpNet, needs_a_parker_that_watches) {
  Table table;
  engine::SeededRandom random(1);
  engine::FutexParker parker(engine::system_clock());
  Loop loop(engine::system_clock(), random, parker);
  TcpNetwork network(config_of(kNear, table));
  const auto net = TcpNet::create(network, loop, parker);
  ASSERT_FALSE(net);
  EXPECT_EQ(net.error().status, Status(Code::not_supported));
}

TEST(TcpNet, hands_calls_to_its_own_node_to_the_local_network) {
  Table table;
  net::LocalNetwork local_network(kFar);
  // The local network needs the loop, which a node makes: so it is made late.
  struct Late final : engine::Net {
    void call(engine::CallOp& op) override { inner->call(op); }
    void cancel(engine::CallOp& op) override { inner->cancel(op); }
    void serve(engine::Address address, engine::Service& service) override {
      inner->serve(address, service);
    }
    void withdraw(engine::Address address) override { inner->withdraw(address); }
    std::unique_ptr<net::LocalNet> inner;
  } local;
  Node node(config_of(kFar, table), &local);
  local.inner = std::make_unique<net::LocalNet>(local_network, node.loop());
  TestService service;
  node.net().serve(kService, service);
  std::vector<std::byte> memory(kMiB);
  TestCall call(kDirect);
  call.expose(memory, Access::place);
  node.net().call(call);
  run_until({&node.loop()}, [&] { return call.done(); });
  EXPECT_EQ(call.response_bytes[0], std::byte{1}) << "its service reaches the memory itself";
  EXPECT_TRUE(node.net().peers().empty());
  node.net().withdraw(kService);
  TestCall gone(kEcho);
  node.net().call(gone);
  run_until({&node.loop()}, [&] { return gone.done(); });
  EXPECT_EQ(gone.status, Status(Code::peer_gone));
}

}  // namespace
}  // namespace penstock::tcp
