// Nodes that prove who they are: who gets through, and what both hear who do not.
#include "../limits.h"
#include "tests/node.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

#include "penstock/testing_wires.h"

namespace penstock::tcp {
namespace {

using engine::Access;
using engine::Loop;

class TcpSealed : public testing::Test {
 protected:
  void make_server(std::shared_ptr<const tls::Credentials> credentials) {
    NetworkConfig config = config_of(kFar, table_);
    config.credentials = std::move(credentials);
    config.open_to_guests = kService.service;
    config.record_helpers = helpers_;
    far_.emplace(config);
    far_->net().serve(kService, service_);
    table_.nodes[kFar] = {far_->listen()};
  }
  void make_caller(std::shared_ptr<const tls::Credentials> credentials, NodeId node = kNear) {
    NetworkConfig config = config_of(node, table_);
    config.role_to_serve = [](uint32_t) -> uint8_t { return engine::kRoleStorage; };
    config.credentials = std::move(credentials);
    config.record_helpers = helpers_;
    near_.emplace(config);
  }
  Status call() {
    TestCall op(kEcho);
    near_->net().call(op);
    run_until({&near_->loop(), &far_->loop()}, [&] { return op.done(); });
    return op.status;
  }
  std::string trouble() {
    for (const PeerFacts& peer : near_->net().peers()) return peer.trouble;
    return "";
  }
  ~TcpSealed() override {
    near_.reset();
    if (far_) far_->net().withdraw(kService);
  }

  std::optional<uint32_t> helpers_;
  Table table_;
  TestService service_;
  std::optional<Node> far_;
  std::optional<Node> near_;
};

TEST_F(TcpSealed, nodes_of_one_cluster_call_one_another) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of(kNear));
  EXPECT_EQ(call(), Code::ok) << trouble();
  EXPECT_EQ(service_.calls, 1);
}

TEST_F(TcpSealed, a_node_of_another_cluster_is_not_let_in) {
  make_server(test::credentials_of(kFar));
  make_caller(test::foreign_credentials_of(kNear));
  EXPECT_EQ(call(), Code::peer_gone);
  EXPECT_NE(trouble().find("certificate"), std::string::npos) << trouble();
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(TcpSealed, a_node_is_the_one_of_its_certificate) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of(NodeId{77}));
  EXPECT_EQ(call(), Code::peer_gone);
  EXPECT_NE(trouble().find("refused"), std::string::npos) << trouble();
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(TcpSealed, and_so_is_whoever_is_called) {
  make_server(test::credentials_of(NodeId{77}));
  make_caller(test::credentials_of(kNear));
  EXPECT_EQ(call(), Code::peer_gone);
  EXPECT_NE(trouble().find("its certificate is of node 77"), std::string::npos) << trouble();
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(TcpSealed, guests_call_what_is_open_to_them) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of_guest(), kGuest);
  EXPECT_EQ(call(), Code::ok) << trouble();
}

TEST_F(TcpSealed, a_guest_is_no_node) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of_guest(), kNear);
  EXPECT_EQ(call(), Code::peer_gone);
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(TcpSealed, a_caller_in_the_clear_is_not_let_in) {
  make_server(test::credentials_of(kFar));
  make_caller(nullptr);
  EXPECT_EQ(call(), Code::peer_gone);
  EXPECT_NE(trouble().find("--insecure"), std::string::npos) << trouble();
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(TcpSealed, nor_does_a_sealed_one_call_in_the_clear) {
  make_server(nullptr);
  make_caller(test::credentials_of(kNear));
  EXPECT_EQ(call(), Code::peer_gone);
  EXPECT_NE(trouble().find("--insecure"), std::string::npos) << trouble();
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(TcpSealed, a_service_knows_the_roles_of_its_callers) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of(kNear, "meta,agent,later"));
  ASSERT_EQ(call(), Code::ok) << trouble();
  EXPECT_EQ(service_.last.node, kNear);
  EXPECT_EQ(service_.last.roles, engine::kRoleMeta | engine::kRoleAgent);
}

TEST_F(TcpSealed, a_guest_has_no_roles_and_who_speaks_in_the_clear_may_have_all) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of_guest(), kGuest);
  ASSERT_EQ(call(), Code::ok) << trouble();
  EXPECT_EQ(service_.last.roles, 0);
  near_.reset();
  far_->net().withdraw(kService);
  make_server(nullptr);
  make_caller(nullptr);
  ASSERT_EQ(call(), Code::ok) << trouble();
  EXPECT_EQ(service_.last.roles, engine::kEveryRole);
}

TEST_F(TcpSealed, nobody_is_called_without_the_role_for_it) {
  make_server(test::credentials_of(kFar, "agent"));
  make_caller(test::credentials_of(kNear));
  EXPECT_EQ(call(), Code::peer_gone);
  EXPECT_NE(trouble().find("without storage"), std::string::npos) << trouble();
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(TcpSealed, a_node_that_was_removed_loses_its_connections_and_gets_no_others) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of(kNear));
  ASSERT_EQ(call(), Code::ok) << trouble();
  TestCall held(kHold);
  near_->net().call(held);
  run_until({&near_->loop(), &far_->loop()}, [&] { return service_.calls == 2; });
  table_.removed.insert(kNear);
  far_->net().expel(kNear);
  service_.release();
  run_until({&near_->loop(), &far_->loop()}, [&] { return held.done(); });
  EXPECT_EQ(held.status, Code::peer_gone);
  EXPECT_EQ(call(), Code::peer_gone);
  EXPECT_NE(trouble().find("refused"), std::string::npos) << trouble();
  EXPECT_EQ(service_.calls, 2);
}

TEST_F(TcpSealed, a_node_that_was_removed_is_called_no_more) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of(kNear));
  TestCall held(kHold);
  near_->net().call(held);
  run_until({&near_->loop(), &far_->loop()}, [&] { return service_.calls == 1; });
  near_->net().expel(kFar);
  run_until({&near_->loop(), &far_->loop()}, [&] { return held.done(); });
  EXPECT_EQ(held.status, Code::peer_gone);
  service_.release();
}

TEST_F(TcpSealed, connections_end_with_the_certificates_of_either_side) {
  for (const bool is_caller : {false, true}) {
    // Times in certificates are whole seconds.
    const auto ends_soon =
        test::short_credentials_of(is_caller ? kNear : kFar, std::chrono::seconds(2));
    make_server(is_caller ? test::credentials_of(kFar) : ends_soon);
    make_caller(is_caller ? ends_soon : test::credentials_of(kNear));
    ASSERT_EQ(call(), Code::ok) << trouble();
    TestCall held(kHold);
    near_->net().call(held);
    run_until({&near_->loop(), &far_->loop()}, [&] { return held.done(); });
    EXPECT_EQ(held.status, Code::peer_gone);
    service_.release();
    near_.reset();
    far_->net().withdraw(kService);
  }
}

TEST_F(TcpSealed, new_credentials_count_for_connections_from_then_on) {
  make_server(test::foreign_credentials_of(kFar));
  make_caller(test::credentials_of(kNear));
  EXPECT_EQ(call(), Code::peer_gone);
  far_->network().renew(test::credentials_of(kFar));
  const bool came = test::eventually([&] { return call().ok(); }, test::kPatience);
  EXPECT_TRUE(came) << trouble();
}

TEST_F(TcpSealed, who_begins_a_handshake_and_says_nothing_more_is_put_out) {
  NetworkConfig config = config_of(kFar, table_);
  config.credentials = test::credentials_of(kFar);
  config.patience.greeting = std::chrono::milliseconds(100);
  far_.emplace(config);
  far_->net().serve(kService, service_);
  RawPeer peer = RawPeer::connect(far_->listen());
  EXPECT_TRUE(peer.closed({&far_->loop()}));
}

TEST_F(TcpSealed, callers_that_say_nothing_or_little_hold_back_nobody) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of(kNear));
  std::vector<RawPeer> others;
  constexpr size_t kSayLittle = limits::kHandshakesMax + 100;
  constexpr size_t kOthers = kSayLittle + 200;
  static_assert(kOthers < limits::kGreetingsMax);
  for (size_t i = 0; i < kOthers; ++i) {
    others.push_back(RawPeer::connect(table_.nodes[kFar][0]));
    // A record of a handshake that does not go on.
    const std::array<std::byte, 3> begun{std::byte{22}, std::byte{3}, std::byte{1}};
    if (i < kSayLittle) others.back().send(begun, {&far_->loop()});
  }
  EXPECT_EQ(call(), Code::ok) << trouble();
}

TEST_F(TcpSealed, none_gives_way_when_more_come_at_once_than_may_be_half_done) {
  constexpr uint32_t kMany = limits::kHandshakesMax + 100;
  const auto config_with_time = [&](NodeId node) {
    NetworkConfig config = config_of(node, table_);
    config.credentials = test::credentials_of(node);
    config.patience.connect = config.patience.greeting = test::kPatience;
    return config;
  };
  far_.emplace(config_with_time(kFar));
  near_.emplace(config_with_time(kNear));
  table_.nodes[kFar] = {far_->listen()};
  std::vector<std::unique_ptr<TestCall>> calls;
  for (uint32_t i = 0; i < kMany; ++i) {
    const engine::Address own{kFar, kService.service + i};
    far_->net().serve(own, service_);
    near_->net().call(*calls.emplace_back(std::make_unique<TestCall>(kEcho, own)));
  }
  run_until({&near_->loop(), &far_->loop()}, [&] {
    return std::all_of(calls.begin(), calls.end(), [](const auto& call) { return call->done(); });
  });
  for (const auto& call : calls) EXPECT_EQ(call->status, Code::ok);
  near_.reset();
  // The fixture withdraws the first.
  for (uint32_t i = 1; i < kMany; ++i) far_->net().withdraw({kFar, kService.service + i});
}

TEST_F(TcpSealed, a_node_that_goes_away_takes_its_handshakes_along) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of(kNear));
  std::vector<RawPeer> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(RawPeer::connect(table_.nodes[kFar][0]));
  TestCall op(kEcho);
  near_->net().call(op);
  near_->loop().poll();
  far_->loop().poll();
  near_.reset();
  EXPECT_TRUE(op.done());
  EXPECT_EQ(op.status, Code::closed);
}

// Whether threads help with its records, or not.
class TcpSealedLarge : public TcpSealed, public testing::WithParamInterface<uint32_t> {
 protected:
  TcpSealedLarge() { helpers_ = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Helpers, TcpSealedLarge, testing::Values(0, 2));

TEST_P(TcpSealedLarge, payload_comes_as_it_was_sent) {
  make_server(test::credentials_of(kFar));
  make_caller(test::credentials_of(kNear));
  std::vector<std::byte> memory(3 * kMiB + 17);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(mix64(i));
  TestCall fetch(kFetch);
  fetch.expose(memory, Access::fetch);
  near_->net().call(fetch);
  run_until({&near_->loop(), &far_->loop()}, [&] { return fetch.done(); });
  ASSERT_EQ(fetch.status, Code::ok);
  uint32_t checksum = 0;
  std::memcpy(&checksum, fetch.response_bytes.data(), sizeof checksum);
  EXPECT_EQ(checksum, crc32c(memory));
  TestCall place(kPlace);
  place.request_bytes[0] = std::byte{0x5c};
  place.expose(memory, Access::place);
  near_->net().call(place);
  run_until({&near_->loop(), &far_->loop()}, [&] { return place.done(); });
  ASSERT_EQ(place.status, Code::ok);
  for (const std::byte byte : memory) ASSERT_EQ(byte, std::byte{0x5c});
}

}  // namespace
}  // namespace penstock::tcp
