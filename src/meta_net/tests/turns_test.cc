// Calls that are slow: who waits for them, and who does not.
#include "gated_kv.h"
#include "played_calls.h"

namespace penstock::meta_net {
namespace {

class SlowService : public ServiceTest {
 protected:
  SlowService() {
    end();
    slow_ = meta::open_meta(gate_, clock_);
    // So that numbers are at hand, for which all would wait.
    EXPECT_TRUE(slow_->unused_id().has_value());
    MetaServiceConfig config;
    config.meta = slow_.get();
    config.threads = 4;
    config.threads_per_node = 2;
    begin(config);
  }
  ~SlowService() override {
    gate_.let_go();
    end();
  }
  PlayedCall& sent(NodeId node, const RequestHeader& header, const Request& request) {
    PlayedCall& call = prepared(header, request);
    call.from.node = node;
    send(call);
    return call;
  }

  GatedKv gate_{storage_->kv()};
  std::unique_ptr<meta::Meta> slow_;
};

TEST_F(SlowService, a_call_that_comes_again_waits_for_the_first) {
  gate_.hold();
  PlayedCall& first = sent(NodeId{5}, changing(1), create("f"));
  gate_.await(1);
  PlayedCall& again = sent(NodeId{5}, changing(1), create("f"));
  loop_.poll();
  EXPECT_FALSE(again.is_ended);
  gate_.let_go();
  await(first);
  await(again);
  ASSERT_TRUE(answer_of<ask::Create>(first).has_value());
  EXPECT_EQ(again.answer, first.answer);
}

TEST_F(SlowService, repeats_that_wait_are_bounded) {
  gate_.hold();
  std::vector<PlayedCall*> calls;
  for (size_t i = 0; i < limits::kWaitingMax + 3; ++i) {
    calls.push_back(&sent(NodeId{5}, changing(1), create("f")));
  }
  EXPECT_TRUE(calls.back()->is_ended);
  EXPECT_EQ(calls.back()->status, Code::busy);
  gate_.let_go();
  size_t answered = 0;
  for (PlayedCall* call : calls) {
    await(*call);
    if (call->status.ok()) ++answered;
  }
  EXPECT_EQ(answered, limits::kWaitingMax + 1);
}

TEST_F(SlowService, one_node_keeps_no_more_than_its_share_of_threads) {
  gate_.hold();
  std::vector<PlayedCall*> greedy;
  for (uint64_t i = 1; i <= 20; ++i) {
    greedy.push_back(&sent(NodeId{5}, looking(), ask::GetAttributes{meta::kRootInode}));
  }
  gate_.await(2);
  PlayedCall& other = sent(NodeId{6}, looking(), ask::GetAttributes{meta::kRootInode});
  gate_.await(3);
  EXPECT_EQ(gate_.waiting(), 3u) << "two of the greedy one, and the other's";
  gate_.let_go();
  await(other);
  for (PlayedCall* call : greedy) await(*call);
  EXPECT_TRUE(answer_of<ask::GetAttributes>(other).has_value());
}

TEST_F(SlowService, calls_of_one_node_are_bounded_and_others_let_in) {
  gate_.hold();
  std::vector<PlayedCall*> calls;
  for (size_t i = 0; i <= limits::kCallsPerNode; ++i) {
    calls.push_back(&sent(NodeId{5}, looking(), ask::GetAttributes{meta::kRootInode}));
  }
  EXPECT_EQ(calls.back()->status, Code::busy);
  EXPECT_EQ(service_->figures().busy, 1u);
  PlayedCall& other = sent(NodeId{6}, looking(), ask::GetAttributes{meta::kRootInode});
  EXPECT_FALSE(other.is_ended);
  gate_.let_go();
  for (PlayedCall* call : calls) await(*call);
  await(other);
  EXPECT_TRUE(other.status.ok());
}

TEST_F(SlowService, what_waits_ends_with_the_service_and_what_is_under_way_is_answered) {
  gate_.hold();
  PlayedCall& first = sent(NodeId{5}, changing(1, 0), create("a"));
  PlayedCall& second = sent(NodeId{5}, changing(1, 1), create("b"));
  gate_.await(2);
  PlayedCall& waits = sent(NodeId{5}, changing(1, 2), create("c"));
  struct Stop : engine::Op {
    bool is_over = false;
  } stop;
  stop.completion = [](engine::Op& op) { static_cast<Stop&>(op).is_over = true; };
  service_->stop(stop);
  EXPECT_EQ(waits.status, Code::peer_gone);
  loop_.poll();
  EXPECT_FALSE(stop.is_over);
  gate_.let_go();
  while (!stop.is_over) loop_.poll_or_park(soon());
  EXPECT_TRUE(answer_of<ask::Create>(first).has_value());
  EXPECT_TRUE(answer_of<ask::Create>(second).has_value());
  service_ = nullptr;
  EXPECT_EQ(meta_->lookup({}, meta::kRootInode, "c").error(), Code::not_found);
}

}  // namespace
}  // namespace penstock::meta_net
