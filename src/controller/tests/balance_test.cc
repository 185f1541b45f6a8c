// Clusters that grow: copies move to where they are to lie, a few at a time, and stay there.
#include "rig.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

namespace penstock::controller {
namespace {

bool leaves(const Member& member) {
  return member.leaving;
}

class Balancing : public testing::Test {
 protected:
  // A table made while only the first so many nodes were up.
  static void make_table(Rig& rig, uint32_t nodes, uint32_t copies, uint32_t chains) {
    for (Target& target : rig.state.targets) target.seen.up = target.id.value <= nodes;
    engine::SeededRandom random(3);
    const auto table = plan_table(rig.state, {.copies = copies, .chains = chains}, random);
    ASSERT_TRUE(table.has_value()) << table.error().message;
    for (Target& target : rig.state.targets) target.seen.up = true;
    ASSERT_TRUE(rig.say(*table).refusals.empty());
  }

  // What must hold at every moment while copies move.
  static void expect_promises(const Rig& rig) {
    size_t moving = 0;
    std::vector<size_t> busy(rig.state.targets.size());
    for (const Chain& chain : rig.state.chains) {
      if (!std::any_of(chain.members.begin(), chain.members.end(), leaves)) continue;
      ASSERT_GE(count_of(chain, CopyState::serving), rig.state.at(chain.table).copies);
      ++moving;
      for (const Member& member : chain.members) ++busy[member.target.value - 1];
    }
    ASSERT_LE(moving, limits::kMovesAtOnce);
    ASSERT_LE(*std::max_element(busy.begin(), busy.end()), limits::kMovesPerTarget);
  }

  // Repairs whatever is syncing until nothing moves any more; says how many copies were moved.
  static size_t finish(Rig& rig) {
    size_t moved = 0;
    int quiet = 0;
    for (int round = 0; round < 20'000 && quiet < 10; ++round) {
      rig.beat_all();
      const size_t before = moving(rig);
      rig.tick_after(milliseconds(250));
      if (moving(rig) > before) moved += moving(rig) - before;
      expect_promises(rig);
      if (testing::Test::HasFatalFailure()) return moved;
      bool is_syncing = false;
      for (const Chain& chain : rig.state.chains) {
        if (count_of(chain, CopyState::syncing) == 0) continue;
        is_syncing = true;
        rig.repaired(chain);
      }
      quiet = is_syncing || !rig.state.open.empty() ? 0 : quiet + 1;
    }
    EXPECT_EQ(quiet, 10) << "moves do not end";
    EXPECT_EQ(health(rig.state).moves_left, 0U);
    return moved;
  }
  static size_t moving(const Rig& rig) { return health(rig.state).moving; }

  static std::vector<size_t> loads(const Rig& rig) {
    std::vector<size_t> loads;
    for (const Target& target : rig.state.targets) loads.push_back(target.chains.size());
    return loads;
  }
  static PairLoads pairs(const Rig& rig) {
    std::vector<std::vector<TargetId>> chains;
    for (const Chain& chain : rig.state.chains) {
      std::vector<TargetId>& targets = chains.emplace_back();
      for (const Member& member : chain.members) targets.push_back(member.target);
    }
    return pair_loads(rig.state, chains);
  }
};

TEST_F(Balancing, new_nodes_get_their_share_and_no_copy_moves_twice) {
  Rig rig(8);
  make_table(rig, 6, 3, 40);
  ASSERT_TRUE(rig.state.at(TargetId(7)).chains.empty());
  EXPECT_EQ(finish(rig), 30U);
  EXPECT_EQ(loads(rig), std::vector<size_t>(8, 15));
  EXPECT_LE(pairs(rig).most, pairs(rig).bound());
}

TEST_F(Balancing, a_lost_nodes_load_spreads_evenly_however_a_cluster_grew) {
  struct Growth {
    uint32_t nodes, of, copies, chains;
  };
  for (const Growth& growth : {Growth{3, 4, 3, 12}, Growth{3, 6, 3, 24}, Growth{2, 3, 2, 8},
                               Growth{2, 9, 2, 40}, Growth{3, 12, 3, 48}, Growth{6, 16, 2, 80}}) {
    SCOPED_TRACE(std::to_string(growth.nodes) + " nodes became " + std::to_string(growth.of));
    Rig rig(growth.of);
    make_table(rig, growth.nodes, growth.copies, growth.chains);
    finish(rig);
    const std::vector<size_t> found = loads(rig);
    const auto [least, most] = std::minmax_element(found.begin(), found.end());
    EXPECT_LE(*most - *least, 1U);
    EXPECT_LE(pairs(rig).most, pairs(rig).bound()) << "mean " << pairs(rig).mean;
  }
}

TEST_F(Balancing, shares_follow_sizes_when_a_disk_was_changed) {
  Rig rig(5);
  make_table(rig, 5, 2, 60);
  EXPECT_EQ(finish(rig), 0U);
  rig.state.at(TargetId(2)).capacity_bytes = 2 * kGiB;
  finish(rig);
  EXPECT_EQ(loads(rig), (std::vector<size_t>{20, 40, 20, 20, 20}));
}

TEST_F(Balancing, sizes_that_differ_a_little_move_nothing) {
  Rig rig(6);
  make_table(rig, 6, 3, 120);
  for (uint32_t i = 1; i <= 6; ++i) {
    rig.state.at(TargetId(i)).capacity_bytes = kGiB + (i % 2) * kGiB / 25;
  }
  EXPECT_EQ(finish(rig), 0U);
  EXPECT_EQ(loads(rig), std::vector<size_t>(6, 60));
}

TEST_F(Balancing, nothing_moves_where_there_is_no_other_node) {
  Rig rig(3);
  make_table(rig, 3, 3, 12);
  rig.state.at(TargetId(2)).capacity_bytes = 10 * kGiB;
  EXPECT_EQ(finish(rig), 0U);
}

TEST_F(Balancing, no_move_begins_while_a_chain_lacks_a_copy) {
  Rig rig(4);
  make_table(rig, 3, 3, 12);
  rig.state.balancing.next_look = rig.now + seconds(7);
  rig.pass(seconds(6), 3);
  ASSERT_EQ(health(rig.state).partial, 12U);
  rig.pass(seconds(6), 3);
  EXPECT_EQ(moving(rig), 0U);
  EXPECT_TRUE(rig.state.at(TargetId(4)).chains.empty());
  EXPECT_TRUE(health(rig.state).moves_wait);
  // Once it is back, and repaired, they begin.
  rig.restart(3);
  EXPECT_EQ(finish(rig), 9U);
  EXPECT_FALSE(health(rig.state).moves_wait);
}

TEST_F(Balancing, a_chain_that_is_being_moved_outlives_the_loss_of_where_it_goes) {
  Rig rig(4);
  make_table(rig, 3, 3, 12);
  rig.pass(seconds(2));
  ASSERT_EQ(moving(rig), limits::kMovesPerTarget);
  EXPECT_GT(health(rig.state).moves_left, 6U);
  EXPECT_LT(health(rig.state).moves_time, engine::Duration::zero()) << "nothing was moved yet";
  // Node 4 is lost for good: its moves are given up, and copies stay where they were.
  rig.pass(seconds(8), 4);
  EXPECT_EQ(health(rig.state).whole, 12U);
  rig.pass(limits::kReplaceAfter + seconds(2), 4);
  EXPECT_EQ(moving(rig), 0U);
  EXPECT_EQ(health(rig.state).moves_left, 0U);
  for (const uint32_t target : {1, 2, 3}) {
    EXPECT_EQ(rig.state.at(TargetId(target)).chains.size(), 12U);
  }
}

TEST_F(Balancing, tells_how_much_is_left_and_how_long_it_takes) {
  Rig rig(4);
  make_table(rig, 3, 3, 12);
  rig.pass(seconds(2));
  const size_t at_first = health(rig.state).moves_left;
  EXPECT_EQ(at_first, 9U);
  for (int round = 0; round < 8; ++round) {
    for (const Chain& chain : rig.state.chains) {
      if (count_of(chain, CopyState::syncing) > 0) rig.repaired(chain);
    }
    rig.pass(milliseconds(500));
  }
  const Health now = health(rig.state);
  EXPECT_LT(now.moves_left, at_first);
  EXPECT_GT(now.moves_left, 0U);
  EXPECT_GT(now.moves_time, engine::Duration::zero());
  EXPECT_FALSE(now.moves_wait);
}

// Chains also move one by one where nodes share too many: how long such a move takes says nothing
// of the next round of moves.
TEST_F(Balancing, what_moved_before_a_round_of_moves_is_not_counted_in_it) {
  Rig rig(4);
  make_table(rig, 3, 3, 12);
  rig.state.balancing.next_look = rig.now + std::chrono::hours(1);
  for (const uint32_t chain : {0, 1}) {
    const Chain& moved = rig.state.chains[chain];
    ASSERT_TRUE(rig.say(Move{moved.id, moved.members[0].target, TargetId(4)}).refusals.empty());
    rig.pass(milliseconds(500));
    EXPECT_EQ(moving(rig), 1U);
    EXPECT_EQ(health(rig.state).moves_time, engine::Duration(-1));
    rig.repaired(moved);
    rig.pass(milliseconds(500));
    EXPECT_EQ(moving(rig), 0U);
  }
  EXPECT_EQ(rig.state.balancing.done, 0U);
}

TEST_F(Balancing, racks_stay_apart) {
  Rig rig(8);
  for (Node& node : rig.state.nodes) node.facts.rack = std::to_string(node.id.value % 4);
  for (Target& target : rig.state.targets) target.seen.up = target.id.value <= 6;
  engine::SeededRandom random(3);
  const TablePlan plan{.copies = 3, .racks_apart = true, .chains = 24};
  const auto table = plan_table(rig.state, plan, random);
  ASSERT_TRUE(table.has_value()) << table.error().message;
  for (Target& target : rig.state.targets) target.seen.up = true;
  rig.say(*table);
  EXPECT_GT(finish(rig), 0U);
  for (const Chain& chain : rig.state.chains) {
    std::set<std::string> racks;
    for (const Member& member : chain.members) {
      racks.insert(rig.state.at(rig.state.at(member.target).node).facts.rack);
    }
    EXPECT_EQ(racks.size(), 3U);
  }
  EXPECT_EQ(loads(rig), std::vector<size_t>(8, 9));
}

TEST_F(Balancing, a_node_shares_with_those_of_its_rack_where_each_rack_has_a_copy) {
  Rig rig(4);
  for (Node& node : rig.state.nodes) node.facts.rack = std::to_string(node.id.value % 3);
  rig.state.at(TargetId(4)).seen.up = false;
  engine::SeededRandom random(3);
  const TablePlan plan{.copies = 3, .racks_apart = true, .chains = 12};
  const auto table = plan_table(rig.state, plan, random);
  ASSERT_TRUE(table.has_value()) << table.error().message;
  rig.state.at(TargetId(4)).seen.up = true;
  rig.say(*table);
  EXPECT_EQ(finish(rig), 6U);
  EXPECT_EQ(loads(rig), (std::vector<size_t>{6, 12, 12, 6}));
}

}  // namespace
}  // namespace penstock::controller
