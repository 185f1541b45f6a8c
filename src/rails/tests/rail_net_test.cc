// Calls between two nodes that have a proven way and RDMA (a simulated fabric): which way they go,
// and what becomes of them when one of the two fails.
#include "nodes.h"

#include <cstring>
#include <functional>
#include <gtest/gtest.h>

namespace penstock::rails {
namespace {

using engine::Access;
using engine::IncomingCall;
using engine::Op;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Call : engine::CallOp {
  Call() {
    to = kService;
    request = said;
    response = answer;
    completion = [](Op& op) { ++static_cast<Call&>(op).ends; };
  }
  std::array<std::byte, 8> said{};
  std::array<std::byte, 8> answer{};
  int ends = 0;
};

class RailNetTest : public testing::Test {
 protected:
  RailNetTest() { log::set_level(log::Level::error); }
  ~RailNetTest() override {
    service_.reply_all();
    nodes_.pass(milliseconds(1));
    nodes_.far.rails->withdraw(kService);
  }

  void begin() {
    nodes_.start();
    nodes_.far.rails->serve(kService, service_);
  }
  bool until(const std::function<bool()>& done) { return nodes_.until(done); }
  Status outcome(Call& call) {
    nodes_.near.rails->call(call);
    EXPECT_TRUE(until([&] { return !service_.held.empty() || call.ends == 1; }));
    service_.reply_all();
    EXPECT_TRUE(until([&] { return call.ends == 1; }));
    return call.status;
  }
  Status outcome() {
    Call call;
    return outcome(call);
  }
  bool joined() const {
    const auto facts = nodes_.near.rails->facts();
    return facts.size() == 1 && !facts[0].device.empty();
  }
  void join() {
    EXPECT_TRUE(outcome().ok());
    ASSERT_TRUE(until([&] { return joined(); }));
  }

  TwoNodes nodes_;
  HoldingService service_;
};

TEST_F(RailNetTest, the_first_call_goes_by_the_proven_way_and_the_next_by_rdma) {
  begin();
  EXPECT_TRUE(outcome().ok());
  const uint64_t before = nodes_.wire.calls_to(kService);
  EXPECT_EQ(before, 1u);
  ASSERT_TRUE(until([&] { return joined(); }));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(outcome().ok());
  EXPECT_EQ(nodes_.wire.calls_to(kService), before);
  EXPECT_EQ(service_.callers, (std::set<NodeId>{kNear}));
}

TEST_F(RailNetTest, a_node_without_rdma_is_called_by_the_proven_way_and_says_why) {
  nodes_.far.without = "told not to";
  begin();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(outcome().ok());
  EXPECT_EQ(nodes_.wire.calls_to(kService), 10u);
  const auto facts = nodes_.near.rails->facts();
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(facts[0].device, "");
  EXPECT_EQ(facts[0].reason, "told not to");
  // It is not asked at every call.
  EXPECT_LE(nodes_.wire.calls_to({kFar, kIntroductionService}), 3u);
}

TEST_F(RailNetTest, services_that_may_not_go_by_rdma_do_not) {
  nodes_.may_go = [](uint32_t service) { return service != kService.service; };
  begin();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(outcome().ok());
  EXPECT_EQ(nodes_.wire.calls_to(kService), 5u);
  EXPECT_EQ(nodes_.wire.calls_to({kFar, kIntroductionService}), 0u);
}

TEST_F(RailNetTest, a_lost_device_loses_no_call_that_was_not_sent) {
  begin();
  join();
  Call sent;
  nodes_.near.rails->call(sent);
  ASSERT_TRUE(until([&] { return !service_.held.empty(); }));
  // More than there are credits: some are not sent.
  std::vector<Call> calls(100);
  for (Call& call : calls) nodes_.near.rails->call(call);
  nodes_.near.device->lose();
  EXPECT_TRUE(until([&] { return sent.ends == 1; }));
  EXPECT_EQ(sent.status.code(), Code::peer_gone);
  service_.reply_all();
  ASSERT_TRUE(until([&] {
    service_.reply_all();
    return std::ranges::all_of(calls, [](const Call& call) { return call.ends == 1; });
  }));
  const auto well = std::ranges::count_if(calls, [](const Call& call) { return call.status.ok(); });
  EXPECT_GE(well, 50);
  for (const Call& call : calls) {
    EXPECT_TRUE(call.status.ok() || call.status.code() == Code::peer_gone);
  }
  EXPECT_TRUE(outcome().ok());
}

TEST_F(RailNetTest, a_device_that_comes_back_is_used_again) {
  begin();
  join();
  nodes_.near.device->lose();
  nodes_.pass(seconds(2));
  EXPECT_TRUE(outcome().ok());
  EXPECT_FALSE(joined());
  nodes_.pass(limits::kReopenAfter + seconds(2));
  ASSERT_TRUE(until([&] {
    EXPECT_TRUE(outcome().ok());
    return joined();
  }));
}

TEST_F(RailNetTest, a_node_whose_queue_pairs_take_long_to_fail_is_refused_for_a_while) {
  begin();
  join();
  int tries = 0;
  nodes_.far.device->on_connect = [&] {
    ++tries;
    nodes_.clock.advance(seconds(1));
    return Status(Code::io_error);
  };
  nodes_.near.rails->lose(kFar);
  for (int i = 0; i < 40; ++i) {
    nodes_.pass(milliseconds(500));
    EXPECT_TRUE(outcome().ok());
  }
  EXPECT_EQ(tries, 1);
  EXPECT_FALSE(joined());
  nodes_.far.device->on_connect = [] { return Status(Code::ok); };
  nodes_.pass(limits::kRefuseTime);
  join();
}

// Who asks a node that has just lost its device is refused, but not for as long as one whose queue
// pairs take long to fail.
TEST_F(RailNetTest, a_device_that_is_back_is_found_soon_by_who_asked_while_it_was_lost) {
  begin();
  join();
  nodes_.far.device->lose();
  for (int i = 0; i < 30; ++i) {
    nodes_.pass(milliseconds(50));
    EXPECT_NE(outcome().code(), Code::timed_out);
  }
  const engine::Time until = nodes_.clock.now() + limits::kRefuseTime - seconds(2);
  while (!joined() && nodes_.clock.now() < until) {
    nodes_.pass(milliseconds(200));
    EXPECT_TRUE(outcome().ok());
  }
  EXPECT_TRUE(joined());
}

TEST_F(RailNetTest, the_end_of_the_proven_way_ends_queue_pairs) {
  begin();
  join();
  Call sent;
  nodes_.near.rails->call(sent);
  ASSERT_TRUE(until([&] { return !service_.held.empty(); }));
  nodes_.wire.cut = true;
  ASSERT_TRUE(until([&] { return sent.ends == 1; }));
  EXPECT_EQ(sent.status.code(), Code::peer_gone);
  EXPECT_FALSE(joined());
  EXPECT_EQ(outcome().code(), Code::peer_gone);
  nodes_.wire.cut = false;
  nodes_.pass(seconds(1));
  join();
}

TEST_F(RailNetTest, watches_end_and_begin_while_queue_pairs_stay) {
  begin();
  join();
  const uint64_t before = nodes_.wire.calls_to(kService);
  for (int i = 0; i < 100; ++i) {
    nodes_.pass(seconds(1));
    EXPECT_TRUE(outcome().ok());
  }
  EXPECT_EQ(nodes_.wire.calls_to(kService), before);
  EXPECT_GE(nodes_.wire.calls_to({kFar, kIntroductionService}), 4u);
}

TEST_F(RailNetTest, a_caller_that_does_not_watch_loses_its_queue_pairs) {
  begin();
  join();
  // Its watch is lost on the way, and it does not notice: as one that lies about that.
  nodes_.wire.forget = {kFar, kIntroductionService};
  nodes_.pass(limits::kWatchTime + limits::kUnwatchedMax + seconds(3));
  EXPECT_TRUE(until([&] { return !joined(); }));
}

TEST_F(RailNetTest, a_removed_node_has_no_queue_pairs) {
  begin();
  join();
  nodes_.far.rails->lose(kNear);
  EXPECT_TRUE(until([&] { return !joined(); }));
}

TEST_F(RailNetTest, memory_without_room_goes_by_the_proven_way) {
  begin();
  join();
  std::vector<std::byte> memory(4 * kMiB);
  nodes_.near.device->registered_bytes_max = 0;
  Call call;
  call.exposures[0] = {{memory.data(), memory.size(), engine::kNoBuffer, {}}, Access::place};
  call.exposure_count = 1;
  const uint64_t before = nodes_.wire.calls_to(kService);
  EXPECT_TRUE(outcome(call).ok());
  EXPECT_EQ(nodes_.wire.calls_to(kService), before + 1);
}

TEST_F(RailNetTest, where_large_packets_are_lost_nothing_goes_by_rdma) {
  nodes_.fabric.faults.packet_max = 1500;
  begin();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(outcome().ok());
    nodes_.pass(milliseconds(100));
    EXPECT_FALSE(joined());
  }
  EXPECT_EQ(nodes_.wire.calls_to(kService), 100u);
  const auto facts = nodes_.near.rails->facts();
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_NE(facts[0].reason.find("large packets"), std::string::npos) << facts[0].reason;
  nodes_.fabric.faults.packet_max = UINT32_MAX;
  nodes_.pass(verbs::limits::kRetryMax);
  join();
}

TEST_F(RailNetTest, a_call_may_be_cancelled_on_either_way) {
  begin();
  Call slow;
  nodes_.near.rails->call(slow);
  nodes_.near.rails->cancel(slow);
  EXPECT_TRUE(until([&] {
    service_.reply_all();
    return slow.ends == 1;
  }));
  join();
  Call other;
  nodes_.near.rails->call(other);
  nodes_.near.rails->cancel(other);
  EXPECT_TRUE(until([&] {
    service_.reply_all();
    return other.ends == 1;
  }));
  EXPECT_EQ(other.status.code(), Code::cancelled);
}

TEST_F(RailNetTest, what_is_asked_without_sense_is_refused) {
  begin();
  join();
  const auto ask = [&](uint16_t method, Bytes request) {
    Call call;
    call.to = {kFar, kIntroductionService};
    call.method = method;
    call.request = request;
    nodes_.near.tcp->call(call);
    EXPECT_TRUE(until([&] { return call.ends == 1; }));
    return call.status.code();
  };
  std::array<std::byte, 56> wanted{};
  EXPECT_EQ(ask(1, {}), Code::bad_message);
  EXPECT_EQ(ask(1, Bytes(wanted).first(55)), Code::bad_message);
  EXPECT_NE(ask(1, wanted), Code::ok);
  EXPECT_EQ(ask(7, {}), Code::not_supported);
}

TEST(DevicesTest, reach_what_is_in_their_subnet) {
  Device device;
  device.subnet_bits = 96 + 20;
  const auto gid = [](uint8_t third, uint8_t fourth) {
    std::array<std::byte, 16> bytes{};
    bytes[10] = bytes[11] = std::byte{0xff};
    bytes[12] = std::byte{10};
    bytes[14] = std::byte{third};
    bytes[15] = std::byte{fourth};
    return bytes;
  };
  device.gid = gid(0x10, 1);
  EXPECT_TRUE(reaches(device, gid(0x1f, 200)));
  EXPECT_FALSE(reaches(device, gid(0x20, 1)));
  device.subnet_bits = 64;
  EXPECT_TRUE(reaches(device, gid(0x20, 1)));
  device.subnet_bits = 128;
  EXPECT_FALSE(reaches(device, gid(0x10, 2)));
  EXPECT_TRUE(reaches(device, gid(0x10, 1)));
}

}  // namespace
}  // namespace penstock::rails
