#include "tests/sim_peers.h"

#include <gtest/gtest.h>
#include <span>

namespace penstock::probe {
namespace {

using engine::Access;
using std::chrono::milliseconds;
using std::chrono::seconds;

// One call with one exposure, or none.
struct Call : Awaited<engine::CallOp> {
  Call(Method asked, uint64_t bytes, Access access = Access::place) : memory(bytes) {
    to = {NodeId(2), kService};
    method = static_cast<uint16_t>(asked);
    request = std::as_bytes(std::span(&message, 1));
    response = std::as_writable_bytes(std::span(&answer, 1));
    exposures[0] = {{memory.data(), bytes, engine::kNoBuffer, engine::MemoryKind::host}, access};
    exposure_count = bytes > 0 ? 1 : 0;
  }
  Request message;
  Response answer;
  std::vector<std::byte> memory;
};

class ProbeService : public testing::Test {
 protected:
  Status run(Call& call) {
    sim_.peer(1).net.call(call);
    EXPECT_TRUE(sim_.world.run_until([&] { return call.is_over; }, seconds(60)));
    return call.status;
  }
  Status run(Method method, uint64_t bytes, Access access = Access::place) {
    Call call(method, bytes, access);
    return run(call);
  }
  std::unique_ptr<Call> begin(uint32_t from, Method method, uint64_t bytes,
                              Access access = Access::place) {
    auto call = std::make_unique<Call>(method, bytes, access);
    sim_.peer(from).net.call(*call);
    return call;
  }
  uint32_t in_progress() { return sim_.peer(2).service.in_progress(); }

  SimPeers sim_{4};
};

TEST_F(ProbeService, does_what_it_is_asked_within_its_bounds) {
  EXPECT_EQ(run(Method::echo, 0), Code::ok);
  Call place(Method::place, limits::kBytesMax);
  EXPECT_EQ(run(place), Code::ok);
  EXPECT_EQ(place.memory.back(), std::byte{0x5a});
  EXPECT_EQ(run(Method::fetch, limits::kBytesMax, Access::fetch), Code::ok);
  Call tell(Method::tell, limits::kDocumentMax);
  EXPECT_EQ(run(tell), Code::ok);
  const auto machine = decode_machine(Bytes(tell.memory).first(tell.answer.length));
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->cards.at(0).name, "sim0");
  EXPECT_EQ(in_progress(), 0U);
}

TEST_F(ProbeService, refuses_exposures_that_do_not_fit_the_method) {
  EXPECT_EQ(run(Method::echo, 1), Code::invalid_argument);
  for (const Method method : {Method::place, Method::fetch, Method::tell, Method::measure}) {
    Call without(method, 0);
    if (method == Method::measure) without.message = {kVersion, 3, 1000, 0};
    EXPECT_EQ(run(without), Code::invalid_argument);
  }
  EXPECT_EQ(run(Method::place, limits::kBytesMax + 1), Code::invalid_argument);
  EXPECT_EQ(run(Method::fetch, limits::kBytesMax + 1, Access::fetch), Code::invalid_argument);
  EXPECT_EQ(run(Method::place, 16, Access::fetch), Code::invalid_argument);
  EXPECT_EQ(run(Method::fetch, 16), Code::invalid_argument);
  Call two(Method::place, 16);
  two.exposures[1] = two.exposures[0];
  two.exposure_count = 2;
  EXPECT_EQ(run(two), Code::invalid_argument);
  EXPECT_EQ(run(Method::tell, 8), Code::too_large) << "a document that does not fit";
  EXPECT_EQ(in_progress(), 0U);
}

TEST_F(ProbeService, refuses_messages_that_cannot_be) {
  Call unknown(static_cast<Method>(7), 16);
  EXPECT_EQ(run(unknown), Code::not_supported);
  Call later(Method::place, 16);
  later.message.version = 2;
  EXPECT_EQ(run(later), Code::wrong_version);
  Call short_one(Method::place, 16);
  short_one.request = short_one.request.first(3);
  EXPECT_EQ(run(short_one), Code::bad_message);
  Call forever(Method::measure, limits::kDocumentMax);
  forever.message = {kVersion, 3, 3'600'000, 0};
  EXPECT_EQ(run(forever), Code::bad_message);
  EXPECT_EQ(sim_.peer(2).measurer.measured, 0);
}

TEST_F(ProbeService, tells_who_asks_for_too_much_at_once_that_it_is_busy_and_serves_others) {
  sim_.network.faults.delay_min = milliseconds(5);
  sim_.network.faults.delay_max = milliseconds(6);
  std::vector<std::unique_ptr<Call>> greedy;
  for (uint32_t i = 0; i < 40; ++i) {
    greedy.push_back(begin(1, Method::fetch, limits::kBytesMax, Access::fetch));
  }
  for (uint32_t i = 0; i < 2 * limits::kCallsOfPeer; ++i) {
    greedy.push_back(begin(3, Method::place, 64));
  }
  const auto modest = begin(4, Method::place, limits::kBytesMax);
  uint32_t most = 0;
  EXPECT_TRUE(sim_.world.run_until(
      [&] {
        most = std::max(most, in_progress());
        return std::all_of(greedy.begin(), greedy.end(),
                           [](const auto& call) { return call->is_over; }) &&
               modest->is_over;
      },
      seconds(60)));
  const auto busy_of = [&](size_t begin, size_t end) {
    return std::count_if(greedy.begin() + static_cast<ptrdiff_t>(begin),
                         greedy.begin() + static_cast<ptrdiff_t>(end),
                         [](const auto& call) { return call->status == Code::busy; });
  };
  EXPECT_EQ(busy_of(0, 40), 40 - 16) << "bytes of one caller";
  EXPECT_EQ(busy_of(40, greedy.size()), limits::kCallsOfPeer) << "calls of one caller";
  EXPECT_EQ(modest->status, Code::ok);
  EXPECT_LE(most, limits::kCallsOfPeer + 17);
  EXPECT_EQ(in_progress(), 0U);
}

TEST_F(ProbeService, measures_for_others_one_at_a_time) {
  Call first(Method::measure, limits::kDocumentMax), second(Method::measure, limits::kDocumentMax);
  for (Call* const call : {&first, &second}) {
    call->message = {kVersion, 3, 200, 0};
    sim_.peer(1).net.call(*call);
  }
  EXPECT_TRUE(sim_.world.run_until([&] { return first.is_over && second.is_over; }, seconds(60)));
  Call& well = first.status.ok() ? first : second;
  Call& late = first.status.ok() ? second : first;
  EXPECT_EQ(late.status, Code::busy);
  ASSERT_EQ(well.status, Code::ok);
  const auto ways = decode_ways(Bytes(well.memory).first(well.answer.length));
  ASSERT_TRUE(ways);
  ASSERT_EQ(ways->size(), 1U);
  EXPECT_EQ(ways->front().transport, "simulated");
  EXPECT_GT(ways->front().place_bytes_per_second, 0U);
}

// As a transport shows a call of somebody who has proven no role.
class OfGuest final : public engine::IncomingCall {
 public:
  engine::Peer peer() const override { return {.node = NodeId(UINT32_MAX), .roles = 0}; }
  uint64_t exposure_length(uint32_t) const override { return 0; }
  Access exposure_access(uint32_t) const override { return Access::place; }
  std::optional<engine::MemoryRef> direct(uint32_t) override { return std::nullopt; }
  void place(engine::TransferOp&) override {}
  void fetch(engine::TransferOp&) override {}
  void reply(Status status, Bytes) override { replied = status; }

  Status replied;
};

TEST_F(ProbeService, is_for_members_only) {
  const Request message;
  OfGuest call;
  call.method = static_cast<uint16_t>(Method::echo);
  call.request = std::as_bytes(std::span(&message, 1));
  sim_.peer(2).service.on_call(call);
  EXPECT_EQ(call.replied, Code::not_permitted);
}

TEST_F(ProbeService, ends_when_all_that_is_under_way_has_ended) {
  const auto call = begin(1, Method::place, limits::kBytesMax);
  EXPECT_TRUE(sim_.world.run_until([&] { return in_progress() == 1; }, seconds(1)));
  Awaited<engine::Op> closed;
  sim_.peer(2).service.close(closed);
  EXPECT_FALSE(closed.is_over);
  EXPECT_TRUE(sim_.world.run_until([&] { return closed.is_over && call->is_over; }, seconds(10)));
  EXPECT_EQ(in_progress(), 0U);
  EXPECT_EQ(run(Method::echo, 0), Code::closed);
}

}  // namespace
}  // namespace penstock::probe
