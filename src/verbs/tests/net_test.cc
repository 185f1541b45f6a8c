// Calls between two nodes on a simulated fabric: their ends, their windows, and what breaks.
#include "nodes.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>

namespace penstock::verbs {
namespace {

using engine::Access;
using engine::CallOp;
using engine::IncomingCall;
using engine::Op;
using engine::TransferOp;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Keeps what comes, for the test to go on with.
class HoldingService final : public engine::Service {
 public:
  void on_call(IncomingCall& call) override { held.push_back(&call); }
  IncomingCall& only() {
    EXPECT_EQ(held.size(), 1u);
    return *held.at(0);
  }
  void reply_all(Status status = Code::ok) {
    for (IncomingCall* call : std::exchange(held, {})) call->reply(status, {});
  }
  std::vector<IncomingCall*> held;
};

struct Call : CallOp {
  Call() {
    to = kService;
    completion = [](Op& op) { ++static_cast<Call&>(op).ends; };
  }
  void expose(MutableBytes memory, Access access) {
    exposures[exposure_count++] = {{memory.data(), memory.size(), engine::kNoBuffer, {}}, access};
  }
  int ends = 0;
};

struct Transfer : TransferOp {
  Transfer(IncomingCall& incoming, uint32_t index, uint64_t offset, MutableBytes memory) {
    call = &incoming;
    exposure = index;
    exposure_offset = offset;
    local = {memory.data(), memory.size(), engine::kNoBuffer, engine::MemoryKind::host};
    completion = [](Op& op) { ++static_cast<Transfer&>(op).ends; };
  }
  int ends = 0;
};

class NetTest : public testing::Test {
 protected:
  NetTest() {
    log::set_level(log::Level::error);
    nodes_.far->serve(kService, service_);
  }
  ~NetTest() override {
    service_.reply_all();
    if (nodes_.far != nullptr) nodes_.far->withdraw(kService);
  }

  bool until(const std::function<bool()>& done, int turns = 20'000) {
    for (; turns > 0 && !done(); --turns) nodes_.turn();
    return done();
  }
  void pass(engine::Duration time) {
    nodes_.clock.advance(time);
    nodes_.turns(200);
  }
  IncomingCall& arrive(Call& call) {
    nodes_.near->call(call);
    EXPECT_TRUE(until([&] { return !service_.held.empty(); }));
    return service_.only();
  }
  void finish(Call& call) {
    service_.reply_all();
    EXPECT_TRUE(until([&] { return call.ends == 1; }));
  }
  std::vector<std::byte> bytes(size_t count, uint8_t first = 0) {
    std::vector<std::byte> made(count);
    for (size_t i = 0; i < count; ++i) made[i] = static_cast<std::byte>(i * 7 + first);
    return made;
  }

  Nodes nodes_;
  HoldingService service_;
};

TEST_F(NetTest, large_transfers_go_both_ways_in_pieces) {
  auto sent = bytes(5 * kMiB + 123);
  auto local = bytes(5 * kMiB + 123, 99);
  std::vector<std::byte> got(sent.size());
  std::vector<std::byte> placed(sent.size());
  Call call;
  call.expose(sent, Access::fetch);
  call.expose(placed, Access::place);
  IncomingCall& incoming = arrive(call);
  Transfer fetch(incoming, 0, 0, got);
  Transfer place(incoming, 1, 0, local);
  incoming.fetch(fetch);
  incoming.place(place);
  ASSERT_TRUE(until([&] { return fetch.ends == 1 && place.ends == 1; }));
  EXPECT_TRUE(fetch.status.ok());
  EXPECT_TRUE(place.status.ok());
  EXPECT_EQ(got, sent);
  finish(call);
  EXPECT_TRUE(call.status.ok());
  EXPECT_EQ(placed, local);
  EXPECT_EQ(nodes_.near->counts().windows_bound, 2u);
  EXPECT_EQ(nodes_.near->counts().pinned_bytes, 0u);
}

TEST_F(NetTest, an_empty_exposure_has_no_window) {
  Call call;
  call.expose({}, Access::place);
  IncomingCall& incoming = arrive(call);
  EXPECT_EQ(incoming.exposure_length(0), 0u);
  Transfer place(incoming, 0, 0, {});
  incoming.place(place);
  ASSERT_TRUE(until([&] { return place.ends == 1; }));
  EXPECT_TRUE(place.status.ok());
  finish(call);
  EXPECT_EQ(nodes_.near->counts().windows_bound, 0u);
}

TEST_F(NetTest, a_late_call_ends_when_its_server_has_stopped_and_the_link_stays) {
  std::vector<std::byte> memory(kMiB);
  auto local = bytes(kMiB);
  Call call;
  call.expose(memory, Access::place);
  call.deadline = nodes_.clock.now() + milliseconds(5);
  IncomingCall& incoming = arrive(call);
  Transfer place(incoming, 0, 0, local);
  incoming.place(place);
  nodes_.turns(3);
  nodes_.clock.advance(milliseconds(6));
  ASSERT_TRUE(until([&] { return call.ends == 1; }));
  EXPECT_EQ(call.status, Status(Code::timed_out));
  EXPECT_EQ(place.ends, 1);
  Transfer later(incoming, 0, 0, local);
  incoming.place(later);
  ASSERT_TRUE(until([&] { return later.ends == 1; }));
  EXPECT_EQ(later.status, Status(Code::peer_gone));
  service_.reply_all();
  Call next;
  arrive(next);
  finish(next);
  EXPECT_TRUE(next.status.ok());
  EXPECT_EQ(nodes_.near->counts().forced, 0u);
  EXPECT_EQ(nodes_.near->counts().links_lost, 0u);
}

TEST_F(NetTest, a_server_stops_in_the_middle_of_what_was_given_up) {
  std::vector<std::byte> memory(16 * kMiB);
  auto local = bytes(memory.size());
  Call call;
  call.expose(memory, Access::place);
  call.deadline = nodes_.clock.now() + milliseconds(5);
  IncomingCall& incoming = arrive(call);
  Transfer place(incoming, 0, 0, local);
  incoming.place(place);
  nodes_.turns(50);
  nodes_.clock.advance(milliseconds(5));
  ASSERT_TRUE(until([&] { return call.ends == 1; }));
  EXPECT_EQ(place.status, Status(Code::peer_gone));
  EXPECT_EQ(nodes_.near->counts().forced, 0u);
  EXPECT_EQ(nodes_.fabric.counts.refused, 0u);
  EXPECT_LE(nodes_.fabric.counts.packets_written * nodes_.fabric.packet_bytes,
            2 * limits::kFlyingBytesMax);
}

TEST_F(NetTest, windows_are_closed_by_force_when_the_server_does_not_stop) {
  std::vector<std::byte> memory(4096);
  auto local = bytes(4096);
  Call call;
  call.expose(memory, Access::place);
  call.deadline = nodes_.clock.now() + milliseconds(5);
  IncomingCall& incoming = arrive(call);
  nodes_.far_device.stopped = true;
  pass(milliseconds(6));
  EXPECT_EQ(call.ends, 0) << "its server may still write";
  nodes_.clock.advance(limits::kReleaseTime);
  ASSERT_TRUE(until([&] { return call.ends == 1; }));
  EXPECT_EQ(call.status, Status(Code::timed_out));
  EXPECT_EQ(nodes_.near->counts().forced, 1u);
  // It has not heard of that.
  Transfer place(incoming, 0, 0, local);
  incoming.place(place);
  nodes_.turns(500);
  EXPECT_EQ(nodes_.fabric.counts.refused, 1u);
  EXPECT_EQ(memory, std::vector<std::byte>(memory.size()));
  nodes_.far_device.stopped = false;
  ASSERT_TRUE(until([&] { return place.ends == 1; }));
  EXPECT_EQ(place.status, Status(Code::peer_gone));
}

TEST_F(NetTest, a_broken_queue_pair_ends_calls_and_transfers_and_the_next_call_connects_anew) {
  std::vector<std::byte> memory(kMiB);
  auto local = bytes(kMiB);
  Call call;
  call.expose(memory, Access::place);
  IncomingCall& incoming = arrive(call);
  Transfer place(incoming, 0, 0, local);
  incoming.place(place);
  nodes_.turns(2);
  nodes_.fabric.faults.breaks = 1'000'000;
  ASSERT_TRUE(until([&] { return nodes_.fabric.counts.broken != 0; }));
  nodes_.fabric.faults.breaks = 0;
  // Where nothing was under way, a ping finds it.
  pass(limits::kPingAfter + limits::kLookEvery);
  ASSERT_TRUE(until([&] { return call.ends == 1; }));
  EXPECT_EQ(call.status, Status(Code::peer_gone));
  ASSERT_TRUE(until([&] { return place.ends == 1; }));
  EXPECT_EQ(place.status, Status(Code::peer_gone));
  service_.reply_all();
  Call next;
  arrive(next);
  finish(next);
  EXPECT_TRUE(next.status.ok());
  EXPECT_EQ(nodes_.to_far.asked, 2u);
}

TEST_F(NetTest, a_lost_device_ends_calls_and_says_why) {
  std::vector<std::byte> memory(4096);
  Call call;
  call.expose(memory, Access::place);
  arrive(call);
  nodes_.near_device.lose();
  nodes_.clock.advance(limits::kLookEvery);
  ASSERT_TRUE(until([&] { return call.ends == 1; }));
  EXPECT_EQ(call.status, Status(Code::peer_gone));
  EXPECT_NE(nodes_.near->trouble().find("sim0"), std::string::npos);
  Call next;
  nodes_.near->call(next);
  ASSERT_TRUE(until([&] { return next.ends == 1; }));
  EXPECT_EQ(next.status, Status(Code::peer_gone));
}

TEST_F(NetTest, a_side_that_says_nothing_is_taken_for_lost) {
  Call call;
  arrive(call);
  pass(limits::kPingAfter + limits::kLookEvery);
  EXPECT_EQ(call.ends, 0);
  // It has answered the ping: the silence begins anew.
  pass(limits::kSilenceMax - limits::kPingAfter);
  EXPECT_EQ(call.ends, 0);
  // Its device acknowledges all the same.
  nodes_.far_device.stopped = true;
  pass(limits::kPingAfter);
  EXPECT_EQ(call.ends, 0);
  pass(limits::kSilenceMax);
  ASSERT_TRUE(until([&] { return call.ends == 1; }));
  EXPECT_EQ(call.status, Status(Code::peer_gone));
}

TEST_F(NetTest, calls_beyond_credits_wait_for_their_turn) {
  std::vector<std::unique_ptr<Call>> calls;
  for (uint32_t i = 0; i < 3 * limits::kCallsMax; ++i) {
    nodes_.near->call(*calls.emplace_back(std::make_unique<Call>()));
  }
  ASSERT_TRUE(until([&] { return service_.held.size() == limits::kCallsMax; }));
  nodes_.turns(1000);
  EXPECT_EQ(service_.held.size(), limits::kCallsMax);
  ASSERT_TRUE(until([&] {
    service_.reply_all();
    return std::ranges::all_of(calls, [](const auto& call) { return call->ends == 1; });
  }));
  for (const auto& call : calls) EXPECT_TRUE(call->status.ok());
}

TEST_F(NetTest, cancel_has_an_effect_before_a_request_is_sent_only) {
  Call first;
  Call second;
  nodes_.near->call(first);
  nodes_.near->cancel(first);
  ASSERT_TRUE(until([&] { return first.ends == 1; }));
  EXPECT_EQ(first.status, Status(Code::cancelled));
  arrive(second);
  nodes_.near->cancel(second);
  nodes_.turns(500);
  EXPECT_EQ(second.ends, 0);
  finish(second);
  EXPECT_TRUE(second.status.ok());
}

TEST_F(NetTest, closing_ends_calls_at_once_and_touches_nothing_afterwards) {
  std::vector<std::byte> memory(kMiB);
  auto local = bytes(kMiB);
  Call call;
  call.expose(memory, Access::place);
  IncomingCall& incoming = arrive(call);
  Transfer place(incoming, 0, 0, local);
  incoming.place(place);
  nodes_.turns(2);
  nodes_.near->close();
  const auto before = memory;
  ASSERT_TRUE(until([&] { return call.ends == 1; }, 2));
  EXPECT_EQ(call.status, Status(Code::closed));
  ASSERT_TRUE(until([&] { return place.ends == 1; }));
  EXPECT_EQ(memory, before);
}

TEST_F(NetTest, the_end_of_the_proven_connection_ends_this_one) {
  Call call;
  arrive(call);
  nodes_.near->lose(kFar);
  ASSERT_TRUE(until([&] { return call.ends == 1; }));
  EXPECT_EQ(call.status, Status(Code::peer_gone));
}

TEST_F(NetTest, calls_may_end_while_the_other_side_has_not_answered_yet) {
  struct Slow final : Introducer {
    void introduce(Introduction& introduction) override { asked = &introduction; }
    Introduction* asked = nullptr;
  } slow;
  nodes_.to_far.instead = &slow;
  Call call;
  nodes_.near->call(call);
  nodes_.near->lose(kFar);
  ASSERT_TRUE(until([&] { return call.ends == 1; }));
  EXPECT_EQ(call.status, Status(Code::peer_gone));
  ASSERT_NE(slow.asked, nullptr);
  EXPECT_EQ(slow.asked->to, kService) << "it must be there until it is answered";
  nodes_.loop.complete(*std::exchange(slow.asked, nullptr), Code::peer_gone);
  nodes_.turns(10);
}

TEST_F(NetTest, announced_memory_is_registered_once) {
  std::vector<std::byte> memory(kMiB);
  nodes_.near->announce({memory});
  for (int i = 0; i < 3; ++i) {
    Call call;
    call.expose(MutableBytes(memory).first(4096), Access::place);
    arrive(call);
    EXPECT_EQ(nodes_.near->take_back(memory), Status(Code::in_use));
    finish(call);
  }
  EXPECT_EQ(nodes_.near->counts().temporary_registrations, 0u);
  EXPECT_EQ(nodes_.near->counts().pinned_bytes, kMiB);
  EXPECT_EQ(nodes_.near->take_back(memory), Status(Code::ok));
}

}  // namespace
}  // namespace penstock::verbs
