// Tables of many sizes, and what changes them.
#include "rig.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace penstock::controller {
namespace {

// A state of so many nodes, with `targets` targets each, all up. `racks`: 0 means none.
State cluster(uint32_t nodes, uint32_t targets, uint32_t racks = 0) {
  State state;
  for (uint32_t n = 1; n <= nodes; ++n) {
    Node& node = state.nodes.emplace_back();
    node.id = NodeId(n);
    node.uuid = uuid_of(n);
    if (racks > 0) node.facts.rack = std::to_string(n % racks);
    for (uint32_t t = 0; t < targets; ++t) {
      Target& target = state.targets.emplace_back();
      target.id = TargetId(static_cast<uint32_t>(state.targets.size()));
      target.node = node.id;
      target.capacity_bytes = kGiB;
    }
  }
  begin(state, engine::Time(seconds(1)));
  for (Target& target : state.targets) target.seen.up = true;
  return state;
}

std::vector<uint32_t> loads_of(const State& state, const CreateTable& table) {
  std::vector<uint32_t> loads(state.targets.size());
  for (const auto& chain : table.chains) {
    for (const TargetId target : chain) ++loads[target.value - 1];
  }
  return loads;
}

void expect_even(uint32_t nodes, uint32_t targets, uint32_t copies, uint32_t chains) {
  SCOPED_TRACE(std::to_string(nodes) + " nodes, " + std::to_string(targets) + " targets each, " +
               std::to_string(copies) + " copies, " + std::to_string(chains) + " chains");
  State state = cluster(nodes, targets);
  engine::SeededRandom random(nodes + chains);
  const auto table = plan_table(state, {.copies = copies, .chains = chains}, random);
  ASSERT_TRUE(table.has_value());
  const std::vector<uint32_t> loads = loads_of(state, *table);
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  EXPECT_LE(*most - *least, 1U);
  const PairLoads pairs = pair_loads(state, table->chains);
  EXPECT_LE(pairs.most, pairs.bound()) << "mean " << pairs.mean;
  std::vector<uint32_t> heads(nodes);
  for (const auto& chain : table->chains) ++heads[state.at(chain.front()).node.value - 1];
  const auto [fewest, most_heads] = std::minmax_element(heads.begin(), heads.end());
  EXPECT_LE(*most_heads - *fewest, 2 + chains / nodes / 4);
  const Actions made = step(state, *table, engine::Time(seconds(1)));
  EXPECT_TRUE(made.refusals.empty());
  EXPECT_EQ(find_fault(state), "");
}

TEST(PlanTable, a_lost_nodes_load_spreads_evenly_from_6_to_1000_nodes) {
  for (const uint32_t nodes : {6, 7, 8, 9, 10, 12, 16, 21, 32, 50, 100}) {
    for (const uint32_t copies : {2, 3}) {
      for (const uint32_t per_node : {4, 20, 60}) {
        expect_even(nodes, 1 + nodes % 4, copies, nodes * per_node / copies);
      }
    }
  }
  expect_even(300, 2, 3, 6000);
  expect_even(1000, 1, 3, 20'000);
}

TEST(PlanTable, shares_follow_capacity_as_far_as_copies_must_lie_apart) {
  State state = cluster(6, 1);
  state.targets[0].capacity_bytes = 2 * kGiB;
  engine::SeededRandom random(1);
  auto table = plan_table(state, {.copies = 2, .chains = 700}, random);
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(loads_of(state, *table), (std::vector<uint32_t>{400, 200, 200, 200, 200, 200}));
  // It cannot have more than one copy of each chain.
  state.targets[0].capacity_bytes = 1000 * kGiB;
  table = plan_table(state, {.copies = 2, .chains = 700}, random);
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(loads_of(state, *table), (std::vector<uint32_t>{700, 140, 140, 140, 140, 140}));
  EXPECT_TRUE(step(state, *table, engine::Time(seconds(1))).refusals.empty());
}

TEST(PlanTable, racks_are_apart_where_told) {
  State state = cluster(12, 2, 3);
  engine::SeededRandom random(1);
  const TablePlan plan{.copies = 3, .racks_apart = true, .chains = 200};
  const auto table = plan_table(state, plan, random);
  ASSERT_TRUE(table.has_value());
  EXPECT_TRUE(step(state, *table, engine::Time(seconds(1))).refusals.empty());
  State few = cluster(12, 2, 2);
  const auto none = plan_table(few, plan, random);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().status, Code::invalid_argument);
}

TEST(PlanTable, the_same_randomness_gives_the_same_table) {
  const State state = cluster(20, 2);
  engine::SeededRandom first(5), second(5);
  const TablePlan plan{.copies = 3, .chains = 100};
  EXPECT_EQ(plan_table(state, plan, first)->chains, plan_table(state, plan, second)->chains);
}

// Repairs whatever is syncing until nothing is, looking at the promises on the way.
void finish_moves(Rig& rig) {
  for (int round = 0; round < 500; ++round) {
    rig.beat_all();
    rig.tick_after(milliseconds(250));
    bool is_syncing = false;
    for (const Chain& chain : rig.state.chains) {
      const size_t serving = count_of(chain, CopyState::serving);
      ASSERT_GE(serving, rig.state.at(chain.table).copies);
      if (count_of(chain, CopyState::syncing) == 0) continue;
      is_syncing = true;
      rig.repaired(chain);
    }
    if (!is_syncing && rig.state.open.empty()) return;
  }
  FAIL() << "moves do not end";
}

TEST(PlanTable, a_drained_node_hands_all_over_and_others_stay_even) {
  Rig rig(7);
  engine::SeededRandom random(3);
  const auto table = plan_table(rig.state, {.copies = 3, .chains = 42}, random);
  ASSERT_TRUE(table.has_value());
  rig.say(*table);
  rig.say(Drain{NodeId(4)});
  finish_moves(rig);
  EXPECT_EQ(chains_on(rig.state, NodeId(4)), 0U);
  for (const Target& target : rig.state.targets) {
    const double wanted = target.id == TargetId(4) ? 0 : 21;
    EXPECT_NEAR(static_cast<double>(target.chains.size()), wanted, 2);
  }
  EXPECT_TRUE(rig.say(Remove{NodeId(4)}).refusals.empty());
}

}  // namespace
}  // namespace penstock::controller
