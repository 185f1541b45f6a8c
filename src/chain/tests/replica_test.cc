// One replica at a time, asked for what its neighbours and clients never would, or for too much.
#include <algorithm>
#include <deque>
#include <gtest/gtest.h>

#include "penstock/chain.h"
#include "penstock/chain_store_fake.h"
#include "penstock/sim.h"
#include "penstock/wire.h"

namespace penstock::chain {
namespace {

constexpr ChainId kChain{1};
constexpr NodeId kReplica{2};
constexpr NodeId kOther{3};  // a client, or the replica's neighbour
constexpr uint64_t kIncarnation = 5;
constexpr uint64_t kNeighbour = 9;  // its incarnation
constexpr auto kLong = std::chrono::hours(1);
constexpr uint32_t kHeldPart = 256 * kKiB;

// A target with a replica, and whoever asks it.
class ReplicaTest : public testing::Test {
 protected:
  ReplicaTest() {
    host_ = Host::make({.target = TargetId{2},
                        .incarnation = kIncarnation,
                        .loop = &loop_,
                        .net = &net_,
                        .store = &store_,
                        .held_bytes_max = 4 * kHeldPart,
                        .report = [this](const Report& report) { reports_.push_back(report); }});
    net_.serve({kReplica, 0}, host_->service());
    host_->lease(loop_.now() + kLong);
  }
  ~ReplicaTest() override {
    net_.kill();
    other_.kill();
    store_.die();
    host_ = nullptr;
    world_.run_for(std::chrono::seconds(10));
  }

  Member replica(Standing standing) { return {TargetId{2}, kIncarnation, {kReplica, 0}, standing}; }
  Member neighbour(Standing standing) { return {TargetId{3}, kNeighbour, {kOther, 0}, standing}; }

  // A call that the test makes, with memory of its own.
  struct Asked : engine::CallOp {
    std::vector<std::byte> message;
    std::array<std::byte, 64> answer{};
    std::vector<std::byte> exposed[2];
    bool ended = false;
  };
  template <class T>
  Asked& ask(wire::ChainMethod method, const T& words) {
    Asked& asked = asked_.emplace_back();
    const Bytes bytes = wire::as_wire(words);
    asked.message.assign(bytes.begin(), bytes.end());
    asked.to = {kReplica, 0};
    asked.method = static_cast<uint16_t>(method);
    asked.request = asked.message;
    asked.response = asked.answer;
    asked.deadline = world_.now() + kLong;
    asked.completion = [](engine::Op& done) { static_cast<Asked&>(done).ended = true; };
    return asked;
  }
  static void expose(Asked& asked, Bytes bytes, engine::Access access) {
    std::vector<std::byte>& kept = asked.exposed[asked.exposure_count];
    kept.assign(bytes.begin(), bytes.end());
    asked.exposures[asked.exposure_count++] = {{kept.data(), kept.size()}, access};
  }
  Status wait(Asked& asked) {
    other_.call(asked);
    EXPECT_TRUE(world_.run_until([&] { return asked.ended; }, kLong));
    return asked.status;
  }
  void wait_for_all() {
    const auto all_ended = [&] {
      return std::all_of(asked_.begin(), asked_.end(), [](const Asked& a) { return a.ended; });
    };
    EXPECT_TRUE(world_.run_until(all_ended, kLong));
  }

  wire::ChainHeader header(uint32_t chunk) const { return {1, 7, kChain.value, chunk}; }

  // The replica is the last of two, and its predecessor has nothing pending.
  void be_second() {
    host_->adopt({kChain, 1, {neighbour(Standing::serving), replica(Standing::serving)}});
    wire::ChainHelloRequest hello{.header = {1, 0, kChain.value, 0},
                                  .from_incarnation = kNeighbour,
                                  .to_incarnation = kIncarnation};
    Asked& asked = ask(wire::ChainMethod::hello, hello);
    expose(asked, {}, engine::Access::fetch);
    ASSERT_EQ(wait(asked), Code::ok);
  }
  void be_alone() { host_->adopt({kChain, 1, {replica(Standing::serving)}}); }

  // An update from the predecessor, of one part with `bytes` zeros.
  Status forward(const store::UpdatePart& part, size_t bytes) {
    wire::ChainForwardRequest request{
        .header = header(0), .name = {1, 1, part.request}, .base = {}};
    request.parts = 1;
    request.flags = wire::kForwardDurable;
    Asked& asked = ask(wire::ChainMethod::forward, request);
    expose(asked, std::as_bytes(std::span(&part, 1)), engine::Access::fetch);
    if (bytes > 0) expose(asked, std::vector<std::byte>(bytes), engine::Access::fetch);
    return wait(asked);
  }
  Asked& write(uint32_t chunk, uint32_t slot, uint32_t length) {
    wire::ChainUpdateRequest request;
    request.header = header(chunk);
    request.request = {1, 1, kOther.value, slot};
    request.end = length;
    request.kind = static_cast<uint8_t>(store::UpdateKind::write);
    Asked& asked = ask(wire::ChainMethod::update, request);
    expose(asked, std::vector<std::byte>(length), engine::Access::fetch);
    return asked;
  }

  sim::SimWorld world_{1};
  sim::SimNetwork network_{world_};
  sim::SimLoop loop_{world_, sim::LoopDriver::world_when_called};
  sim::SimNet net_{network_, loop_, kReplica};
  sim::SimNet other_{network_, loop_, kOther};
  store::FakeChainImage image_;
  store::FakeChainStore store_{image_, loop_};
  std::vector<Report> reports_;
  std::deque<Asked> asked_;
  std::unique_ptr<Host> host_;
};

constexpr RequestId kRequest{1, 1, 3, 0};

TEST_F(ReplicaTest, takes_no_parts_that_cannot_be) {
  be_second();
  const uint32_t end = 4096;
  const auto write_of = [](uint32_t begin, uint32_t to, RequestId request) {
    return store::UpdatePart{request, begin, to, store::UpdateKind::write};
  };
  EXPECT_EQ(forward(write_of(end, end, kRequest), 0), Code::bad_message) << "empty";
  EXPECT_EQ(forward(write_of(0, end, kRequest), end - 1), Code::bad_message) << "bytes are missing";
  EXPECT_EQ(forward(write_of(0, end, kRequest), 0), Code::bad_message) << "all of them";
  EXPECT_EQ(forward(write_of(0, end, {1, 0, 3, 0}), end), Code::bad_message) << "no sequence";
  EXPECT_EQ(forward(write_of(UINT32_MAX - 1, UINT32_MAX, kRequest), 1), Code::bad_message)
      << "outside any chunk";
  const store::UpdatePart unknown{kRequest, 0, 0, static_cast<store::UpdateKind>(9)};
  EXPECT_EQ(forward(unknown, 0), Code::bad_message) << "of no kind";
  EXPECT_EQ(forward(write_of(0, end, kRequest), end), Code::ok) << "a good one";
  EXPECT_TRUE(reports_.empty()) << "nothing of it is a failure of the replica";
}

TEST_F(ReplicaTest, an_update_that_follows_what_it_does_not_have_makes_it_leave) {
  be_second();
  wire::ChainForwardRequest request{
      .header = header(0), .name = {1, 3, kRequest}, .base = {1, 2, kRequest}};
  request.parts = 1;
  Asked& asked = ask(wire::ChainMethod::forward, request);
  const store::UpdatePart part{kRequest, 0, 0, store::UpdateKind::remove};
  expose(asked, std::as_bytes(std::span(&part, 1)), engine::Access::fetch);
  EXPECT_EQ(wait(asked), Code::not_serving);
  ASSERT_FALSE(reports_.empty());
  EXPECT_EQ(reports_.front().kind, Report::Kind::failed);
}

TEST_F(ReplicaTest, more_updates_than_may_be_pending_have_their_turn) {
  be_alone();
  constexpr uint32_t kMany = wire::kChainListMax + 1000;
  for (uint32_t i = 0; i < kMany; ++i) other_.call(write(i, i, 8));
  wait_for_all();
  for (const Asked& asked : asked_) EXPECT_EQ(asked.status, Code::ok);
  EXPECT_EQ(image_.chunks().size(), kMany);
}

TEST_F(ReplicaTest, holds_no_more_of_its_clients_bytes_than_it_may) {
  be_alone();
  constexpr uint32_t kMany = 6;
  for (uint32_t i = 0; i < kMany; ++i) other_.call(write(i, i, kHeldPart));
  wait_for_all();
  const auto refused = std::count_if(asked_.begin(), asked_.end(),
                                     [](const Asked& a) { return a.status == Code::busy; });
  EXPECT_EQ(refused, 2);
  // The memory is there again afterwards.
  EXPECT_EQ(wait(write(kMany, kMany, kHeldPart)), Code::ok);
}

TEST_F(ReplicaTest, without_a_lease_it_says_that_it_does_not_serve) {
  be_alone();
  world_.run_for(2 * kLong);
  EXPECT_EQ(wait(write(0, 0, 8)), Code::not_serving);
}

}  // namespace
}  // namespace penstock::chain
