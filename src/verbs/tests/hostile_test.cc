// What a side does that keeps no rule: it loses its connection, and nothing else happens.
#include "raw_peer.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace penstock::verbs {
namespace {

using engine::Access;
using engine::CallOp;
using engine::IncomingCall;
using engine::Op;

class Echo final : public engine::Service {
 public:
  void on_call(IncomingCall& call) override {
    ++calls;
    if (hold) return held.push_back(&call);
    call.reply(Code::ok, call.request);
  }
  bool hold = false;
  uint32_t calls = 0;
  std::vector<IncomingCall*> held;
};

class HostileTest : public testing::Test {
 protected:
  HostileTest() {
    log::set_level(log::Level::error);
    nodes_.near->serve({kNear, kService.service}, echo_);
    nodes_.to_far.instead = &peer_;
    memory_.resize(256);
    op_.to = kService;
    op_.exposures[0] = {{memory_.data(), memory_.size(), engine::kNoBuffer, {}}, Access::place};
    op_.exposure_count = 1;
    op_.owner = &ends_;
    op_.completion = [](Op& op) { ++op.owner_as<int>(); };
  }
  ~HostileTest() override {
    for (IncomingCall* call : echo_.held) call->reply(Code::ok, {});
    nodes_.near->withdraw({kNear, kService.service});
    nodes_.close();
  }

  // The request as it came.
  Message requested() {
    nodes_.near->call(op_);
    peer_.turns();
    EXPECT_EQ(peer_.received.size(), 1u);
    return peer_.received.at(0);
  }
  static Message response(const Message& request) {
    return {.header = {.kind = MessageKind::response, .call = request.header.call}};
  }
  static Message request(uint64_t call) {
    return {.header = {.kind = MessageKind::request, .call = call}};
  }
  uint64_t lost() const { return nodes_.near->counts().links_lost; }

  Nodes nodes_;
  RawPeer peer_{nodes_};
  Echo echo_;
  std::vector<std::byte> memory_;
  CallOp op_;
  int ends_ = 0;
};

TEST_F(HostileTest, a_write_after_the_end_of_its_call_changes_nothing) {
  const Message request = requested();
  peer_.write(request.spans[0], 7);
  peer_.send(response(request));
  peer_.turns();
  ASSERT_EQ(ends_, 1);
  EXPECT_TRUE(op_.status.ok());
  EXPECT_EQ(memory_[0], std::byte{7});
  peer_.write(request.spans[0], 8);
  peer_.turns();
  EXPECT_EQ(memory_[0], std::byte{7});
  EXPECT_EQ(nodes_.fabric.counts.refused, 1u);
}

TEST_F(HostileTest, a_write_beside_its_window_is_refused) {
  const Message request = requested();
  Span beside = request.spans[0];
  beside.address += beside.length - 8;
  peer_.write(beside, 7);
  peer_.turns();
  EXPECT_EQ(nodes_.fabric.counts.refused, 1u);
  EXPECT_EQ(ends_, 0);
  // The device told of its broken queue pair.
  nodes_.clock.advance(limits::kLookEvery);
  peer_.turns();
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(op_.status, Status(Code::peer_gone));
}

TEST_F(HostileTest, answers_to_calls_that_there_are_not) {
  const Message request = requested();
  Message answer = response(request);
  answer.header.call += 1 << 16;
  peer_.send(answer);
  peer_.turns();
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(op_.status, Status(Code::peer_gone));
  EXPECT_EQ(lost(), 1u);
}

TEST_F(HostileTest, two_answers_to_one_call) {
  const Message request = requested();
  peer_.send(response(request));
  peer_.send(response(request));
  peer_.turns();
  EXPECT_EQ(ends_, 1);
  EXPECT_TRUE(op_.status.ok());
  EXPECT_EQ(lost(), 1u);
}

TEST_F(HostileTest, released_before_it_was_abandoned_means_nothing) {
  const Message request = requested();
  peer_.send({.header = {.kind = MessageKind::released, .call = request.header.call}});
  peer_.turns();
  EXPECT_EQ(ends_, 0);
  peer_.send(response(request));
  peer_.turns();
  EXPECT_EQ(ends_, 1);
  EXPECT_TRUE(op_.status.ok());
}

TEST_F(HostileTest, a_request_to_the_calling_side) {
  (void)requested();
  peer_.send(request(5));
  peer_.turns();
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(op_.status, Status(Code::peer_gone));
}

TEST_F(HostileTest, credits_that_return_nothing_from_who_has_few) {
  peer_.credits = 2;
  ASSERT_TRUE(peer_.call_on(*nodes_.near).ok());
  peer_.send({.header = {.kind = MessageKind::credit}});
  peer_.turns();
  EXPECT_EQ(lost(), 1u);
}

TEST_F(HostileTest, one_node_has_no_more_than_its_share_of_connections) {
  uint32_t made = 0;
  Status status = Code::ok;
  for (uint32_t i = 0; i <= limits::kLinksOfNode && status.ok(); ++i) {
    const auto offer = nodes_.near->accept({kFar}, kService.service, {});
    status = offer ? Status() : offer.error();
    made += status.ok() ? 1 : 0;
  }
  EXPECT_EQ(made, limits::kLinksOfNode);
  EXPECT_EQ(status.code(), Code::busy);
  EXPECT_TRUE(nodes_.near->accept({NodeId{9}}, kService.service, {}));
}

TEST_F(HostileTest, messages_without_credit) {
  ASSERT_TRUE(peer_.call_on(*nodes_.near).ok());
  // While its user is stopped nothing is returned.
  echo_.hold = true;
  for (uint32_t i = 1; i <= limits::kCredits; ++i) peer_.send(request(i));
  peer_.turns();
  EXPECT_EQ(echo_.calls, limits::kCredits);
  EXPECT_EQ(lost(), 0u);
  // Half of them were returned, and told. What goes beyond that all at once is too much.
  nodes_.near_device.stopped = true;
  for (uint32_t i = 1; i <= limits::kReceivesOfLink; ++i) peer_.send(request(100 + i));
  peer_.turns();
  nodes_.near_device.stopped = false;
  peer_.turns();
  EXPECT_EQ(lost(), 1u);
  EXPECT_LE(echo_.calls, 2 * limits::kCredits);
}

TEST_F(HostileTest, credit_messages_that_return_nothing) {
  ASSERT_TRUE(peer_.call_on(*nodes_.near).ok());
  peer_.send({.header = {.kind = MessageKind::credit}});
  peer_.turns();
  EXPECT_EQ(lost(), 1u);
}

TEST_F(HostileTest, more_taken_than_was_sent) {
  ASSERT_TRUE(peer_.call_on(*nodes_.near).ok());
  peer_.send({.header = {.kind = MessageKind::ping, .taken = 1}});
  peer_.turns();
  EXPECT_EQ(lost(), 1u);
}

TEST_F(HostileTest, more_calls_than_there_may_be) {
  ASSERT_TRUE(peer_.call_on(*nodes_.near).ok());
  echo_.hold = true;
  for (uint32_t i = 1; i <= limits::kCallsMax + 1; ++i) {
    peer_.send(request(i));
    peer_.turns(60);
  }
  EXPECT_EQ(echo_.calls, limits::kCallsMax);
  EXPECT_EQ(lost(), 1u);
}

TEST_F(HostileTest, messages_that_are_too_long_or_are_none) {
  ASSERT_TRUE(peer_.call_on(*nodes_.near).ok());
  const std::vector<std::byte> large(limits::kMessageBytesMax + 1);
  peer_.send(large);
  peer_.turns();
  EXPECT_EQ(lost(), 1u);
  EXPECT_EQ(echo_.calls, 0u);
}

TEST_F(HostileTest, keys_do_not_come_again_before_the_response) {
  // Each call is given up at once, and never answered.
  std::vector<uint32_t> keys;
  for (int i = 0; i < 40; ++i) {
    op_.deadline = nodes_.clock.now() + std::chrono::milliseconds(3);
    nodes_.near->call(op_);
    peer_.turns(100);
    nodes_.clock.advance(std::chrono::milliseconds(4));
    peer_.turns(20);
    nodes_.clock.advance(limits::kReleaseTime);
    peer_.turns(100);
    ASSERT_EQ(ends_, i + 1);
    ASSERT_EQ(op_.status, Status(Code::timed_out));
    // Of the credits that two messages for each call use, some are given back.
    peer_.send({.header = {.kind = MessageKind::ping,
                           .taken = static_cast<uint32_t>(peer_.received.size())}});
    peer_.turns(20);
  }
  for (const Message& message : peer_.received) {
    if (message.header.kind == MessageKind::request) keys.push_back(message.spans[0].key >> 8);
  }
  ASSERT_EQ(keys.size(), 40u);
  std::ranges::sort(keys);
  EXPECT_EQ(std::ranges::adjacent_find(keys), keys.end());
}

}  // namespace
}  // namespace penstock::verbs
