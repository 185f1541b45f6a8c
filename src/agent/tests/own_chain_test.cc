// Who is let in to a chain of the node's own, and by which service.
#include "served_names.h"

#include <gtest/gtest.h>

namespace penstock::agent {
namespace {

constexpr NodeId kSelf{1};

struct PlayedCall final : engine::IncomingCall {
  engine::Peer from;
  std::optional<Status> ended;

  explicit PlayedCall(engine::Peer peer) : from(peer) {}
  engine::Peer peer() const override { return from; }
  uint64_t exposure_length(uint32_t) const override { return 0; }
  engine::Access exposure_access(uint32_t) const override { return engine::Access::place; }
  std::optional<engine::MemoryRef> direct(uint32_t) override { return std::nullopt; }
  void place(engine::TransferOp&) override {}
  void fetch(engine::TransferOp&) override {}
  void reply(Status status, Bytes) override { ended = status; }
};

struct CountingService final : engine::Service {
  int* calls;
  explicit CountingService(int* count) : calls(count) {}
  void on_call(engine::IncomingCall& call) override {
    ++*calls;
    call.reply(Code::ok, {});
  }
};

TEST(OwnChain, is_for_the_node_itself_and_for_agents_with_a_session) {
  int own = 0;
  int others = 0;
  CountingService of_node(&own);
  bool has_session = true;
  OwnChain chain(kSelf, of_node, std::make_unique<CountingService>(&others),
                 [&](NodeId node) { return has_session && node == NodeId(2); });
  const auto asked_by = [&](NodeId node, uint8_t roles) {
    engine::Peer peer{node};
    peer.roles = roles;
    PlayedCall call(peer);
    chain.on_call(call);
    return call.ended.value_or(Code::closed);
  };
  EXPECT_EQ(asked_by(kSelf, engine::kEveryRole), Status());
  EXPECT_EQ(own, 1);
  EXPECT_EQ(asked_by(NodeId(2), engine::kRoleAgent | engine::kRoleStorage), Status());
  EXPECT_EQ(others, 1);
  for (const uint8_t roles : {0, engine::kEveryRole & ~engine::kRoleAgent}) {
    EXPECT_EQ(asked_by(NodeId(2), roles), Status(Code::access_denied));
  }
  EXPECT_EQ(own + others, 2);
  // What it had is another's, perhaps.
  has_session = false;
  EXPECT_EQ(asked_by(NodeId(2), engine::kRoleAgent), Status(Code::stale));
  EXPECT_EQ(asked_by(kSelf, engine::kEveryRole), Status());
  EXPECT_EQ(own + others, 3);
}

}  // namespace
}  // namespace penstock::agent
