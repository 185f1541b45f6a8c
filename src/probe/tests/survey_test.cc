#include "tests/sim_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::probe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class ProbeSurvey : public testing::Test {
 protected:
  void begin(uint32_t nodes, NodeId only = NodeId()) {
    op_.nodes.clear();
    for (uint32_t i = nodes; i >= 1; --i) op_.nodes.emplace_back(i);
    op_.only = only;
    op_.time = milliseconds(100);
    op_.is_over = false;
    survey_.run(op_);
  }
  void run(uint32_t nodes, NodeId only = NodeId()) {
    begin(nodes, only);
    await();
  }
  void await() {
    ASSERT_TRUE(sim_.world.run_until([&] { return op_.is_over; }, seconds(600)));
  }
  const PairFacts& pair(uint32_t from, uint32_t to) const {
    for (const PairFacts& one : op_.pairs) {
      if (one.from == NodeId(from) && one.to == NodeId(to)) return one;
    }
    ADD_FAILURE() << "no pair " << from << " to " << to;
    return op_.pairs.front();
  }
  bool is_measured(uint32_t from, uint32_t to) const {
    const PairFacts& of = pair(from, to);
    return of.trouble.empty() && of.ways.size() == 1 && of.ways[0].trouble.empty() &&
           of.ways[0].place_bytes_per_second > 0 && of.ways[0].fetch_bytes_per_second > 0 &&
           of.ways[0].latency_median_ns > 0;
  }

  SimPeers sim_{5};
  Survey survey_{
      {&sim_.peer(1).loop, &sim_.peer(1).net, NodeId(1), &sim_.peer(1).measurer,
       [] { return MachineFacts(); },
       [](engine::Address to) { return to.node == NodeId(3) ? "its cable is cut" : ""; }}};
  Awaited<SurveyOp> op_;
};

TEST_F(ProbeSurvey, measures_each_pair_both_ways) {
  run(5);
  EXPECT_EQ(op_.status, Code::ok);
  ASSERT_EQ(op_.pairs.size(), 20U);
  for (uint32_t from = 1; from <= 5; ++from) {
    for (uint32_t to = 1; to <= 5; ++to) {
      EXPECT_TRUE(from == to || is_measured(from, to)) << from << " to " << to;
    }
  }
  ASSERT_EQ(op_.machines.size(), 5U);
  for (const NodeFacts& node : op_.machines) {
    EXPECT_TRUE(node.machine) << node.node.value << ": " << node.trouble;
  }
  EXPECT_EQ(op_.machines[1].machine->cards.at(0).address, "2");
}

TEST_F(ProbeSurvey, measures_pairs_without_a_common_node_at_the_same_time) {
  const engine::Time begun = sim_.world.now();
  run(5);
  // Two of twenty pairs at a time.
  EXPECT_LT(sim_.world.now() - begun, milliseconds(100) * 16);
}

TEST_F(ProbeSurvey, measures_one_node_and_this_one_when_only_that_is_asked_for) {
  run(5, NodeId(4));
  ASSERT_EQ(op_.pairs.size(), 2U);
  EXPECT_TRUE(is_measured(1, 4));
  EXPECT_TRUE(is_measured(4, 1));
  EXPECT_EQ(op_.machines.size(), 2U);
}

TEST_F(ProbeSurvey, names_a_node_that_does_not_answer_and_tells_the_rest) {
  for (const uint32_t other : {1U, 2U, 4U, 5U}) {
    sim_.network.set_partitioned(NodeId(3), NodeId(other), true);
  }
  run(5);
  EXPECT_EQ(op_.status, Code::ok);
  EXPECT_EQ(op_.machines[2].trouble, "its cable is cut");
  EXPECT_FALSE(op_.machines[2].machine);
  for (const uint32_t other : {1U, 2U, 4U, 5U}) {
    EXPECT_EQ(pair(3, other).trouble, "node 3 could not be asked");
    ASSERT_EQ(pair(other, 3).ways.size(), 1U);
    EXPECT_FALSE(pair(other, 3).ways[0].trouble.empty());
  }
  EXPECT_TRUE(is_measured(1, 2));
  EXPECT_TRUE(is_measured(5, 4));
}

TEST_F(ProbeSurvey, tells_which_two_nodes_do_not_reach_one_another) {
  sim_.network.set_partitioned(NodeId(2), NodeId(4), true);
  run(4);
  for (uint32_t from = 1; from <= 4; ++from) {
    for (uint32_t to = 1; to <= 4; ++to) {
      if (from == to) continue;
      const bool is_cut = from + to == 6 && from != 3 && to != 3 && from != 1 && to != 1;
      EXPECT_EQ(is_measured(from, to), !is_cut) << from << " to " << to;
    }
  }
}

TEST_F(ProbeSurvey, ends_soon_when_it_is_told_to) {
  begin(5);
  sim_.world.run_for(milliseconds(150));
  survey_.stop();
  const engine::Time stopped = sim_.world.now();
  await();
  EXPECT_EQ(op_.status, Code::cancelled);
  EXPECT_LT(sim_.world.now() - stopped, milliseconds(500));
  EXPECT_THAT(op_.pairs.back().trouble, HasSubstr("the check was ended"));
}

TEST_F(ProbeSurvey, is_done_once_at_a_time) {
  begin(3);
  Awaited<SurveyOp> second;
  survey_.run(second);
  EXPECT_TRUE(sim_.world.run_until([&] { return second.is_over; }, seconds(1)));
  EXPECT_EQ(second.status, Code::busy);
  await();
  EXPECT_EQ(op_.status, Code::ok);
  run(2);
  EXPECT_TRUE(is_measured(2, 1)) << "another one after the first";
}

}  // namespace
}  // namespace penstock::probe
