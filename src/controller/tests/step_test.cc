#include "rig.h"

#include <gtest/gtest.h>

namespace penstock::controller {
namespace {

constexpr auto kRepaired = ChainReport::Kind::repaired;
constexpr auto kFailed = ChainReport::Kind::failed;

bool has_lease(const Actions& actions, uint32_t target) {
  for (const Grant& grant : actions.grants) {
    for (const Grant::Of& of : grant.targets) {
      if (grant.lease && of.target == TargetId(target)) return true;
    }
  }
  return false;
}

Code refusal(const Actions& actions) {
  return actions.refusals.empty() ? Code::ok : actions.refusals.front().code;
}

TEST(Membership, another_process_is_let_in_when_the_lease_is_over_or_by_proof) {
  Rig rig(1);
  EXPECT_EQ(refusal(rig.join(1, 50)), Code::in_use);
  const Actions proven = rig.join(1, 51, true);
  ASSERT_EQ(proven.admissions.size(), 1U);
  EXPECT_EQ(proven.admissions.front().incarnation, NodeIncarnation(2));
  rig.beat(1);
  EXPECT_EQ(refusal(rig.join(1, 52)), Code::in_use);
  rig.now += rig.state.timing.lease_counted();
  EXPECT_EQ(refusal(rig.join(1, 52)), Code::ok);
}

TEST(Membership, a_process_that_asks_again_is_the_same_one) {
  Rig rig(1);
  const Actions again = rig.join(1, 1);
  ASSERT_EQ(again.admissions.size(), 1U);
  EXPECT_EQ(again.admissions.front().incarnation, NodeIncarnation(1));
  EXPECT_TRUE(again.changes.empty());
}

TEST(Membership, what_comes_late_or_of_an_older_process_does_not_count) {
  Rig rig(1);
  const Heartbeat late = rig.heartbeat(1);
  EXPECT_TRUE(has_lease(rig.beat(1), 1));
  EXPECT_TRUE(rig.say(late).grants.empty());
  Heartbeat older = rig.heartbeat(1);
  rig.restart(1);
  EXPECT_EQ(refusal(rig.say(older)), Code::stale);
  Heartbeat unknown = rig.heartbeat(1);
  unknown.from.node = NodeId(9);
  EXPECT_EQ(refusal(rig.say(unknown)), Code::not_found);
}

TEST(Membership, a_node_that_hears_no_answers_gets_no_lease_until_it_does) {
  Rig rig(2);
  rig.make_chain({1, 2});
  Heartbeat deaf = rig.heartbeat(2);
  for (int i = 0; i < 40; ++i) {
    rig.beat(1);
    const uint64_t answered = deaf.answered;
    deaf = rig.heartbeat(2);
    deaf.answered = answered;
    rig.beat(deaf);
    rig.tick_after(milliseconds(250));
  }
  EXPECT_EQ(rig.members(), "1S 2w");
  EXPECT_TRUE(rig.state.at(NodeId(2)).seen.silent);
  EXPECT_TRUE(has_lease(rig.beat(2), 2));
}

TEST(Membership, a_controller_of_an_earlier_time_grants_nothing) {
  Rig rig(1);
  Heartbeat later = rig.heartbeat(1);
  later.applied.value++;
  EXPECT_EQ(refusal(rig.say(later)), Code::wrong_version);
  EXPECT_FALSE(has_lease(rig.beat(1), 1));
}

TEST(Targets, a_copy_of_an_earlier_time_is_refused) {
  Rig rig(1);
  rig.restart(1);
  rig.beat(1);
  EXPECT_EQ(refusal(rig.open(1, 1, Incarnation(1), 77)), Code::stale);
  EXPECT_EQ(refusal(rig.open(1, 9, Incarnation(1), 78)), Code::stale);  // of another cluster
}

TEST(Targets, one_that_is_open_is_not_opened_elsewhere) {
  Rig rig(2);
  EXPECT_EQ(refusal(rig.open(2, 1, Incarnation(1), 77)), Code::in_use);
}

TEST(Targets, one_from_another_node_comes_back_first_only_when_trusted) {
  Rig rig(3);
  rig.make_chain({1, 2});
  rig.say(Leave{rig.sender(1)});
  rig.say(Leave{rig.sender(2)});
  ASSERT_EQ(rig.members(), "1! 2!");
  EXPECT_EQ(refusal(rig.open(3, 1, Incarnation(1), 77)), Code::ok);
  Heartbeat said = rig.heartbeat(3);
  said.targets.push_back({TargetId(1), Incarnation(2)});
  rig.beat(said);
  EXPECT_EQ(rig.members(), "1! 2!");
  rig.say(Trust{TargetId(1)});
  EXPECT_EQ(rig.members(), "1S 2w");
}

TEST(Targets, two_copies_of_a_chain_never_come_to_one_node) {
  Rig rig(2);
  rig.make_chain({1, 2});
  rig.say(Leave{rig.sender(1)});
  EXPECT_EQ(refusal(rig.open(2, 1, Incarnation(1), 77)), Code::in_use);
}

TEST(Targets, one_that_is_opened_anew_leaves_its_chains_before_its_lease) {
  Rig rig(2);
  rig.make_chain({1, 2});
  rig.pass(seconds(1));
  rig.restart(2);
  // Nobody was heard of since: perhaps all are lost.
  EXPECT_FALSE(has_lease(rig.beat(2), 2));
  EXPECT_EQ(rig.members(), "1S 2S");
  rig.now += milliseconds(1);
  rig.beat(1);
  EXPECT_EQ(rig.members(), "1S 2y");
  EXPECT_TRUE(has_lease(rig.beat(2), 2));
}

TEST(Chains, a_lost_copy_goes_when_its_lease_is_over_and_another_was_heard_of_since) {
  Rig rig(2);
  rig.make_chain({1, 2});
  rig.beat_all();
  rig.pass(seconds(4), 2);
  EXPECT_EQ(rig.members(), "1S 2S");
  rig.pass(milliseconds(1500), 2);
  EXPECT_EQ(rig.members(), "1S 2w");
  EXPECT_EQ(rig.version(), ChainVersion(2));
}

TEST(Chains, all_that_served_come_back_when_all_were_lost_together) {
  Rig rig(3);
  rig.make_chain({1, 2, 3});
  rig.beat(1);
  rig.now += seconds(1);
  rig.beat(2);
  rig.beat(3);
  for (int i = 0; i < 40; ++i) rig.tick_after(milliseconds(250));
  EXPECT_EQ(rig.members(), "1! 2! 3!");
  rig.beat(3);
  EXPECT_EQ(rig.members(), "3S 1w 2w");
  rig.beat(1);
  EXPECT_EQ(rig.members(), "3S 1y 2w");
}

TEST(Chains, only_the_last_serving_copy_says_of_this_version_that_repair_ended) {
  Rig rig(3);
  rig.make_chain({1, 2, 3});
  rig.say(Leave{rig.sender(3)});
  rig.now += milliseconds(1);
  rig.beat(1);
  ASSERT_EQ(rig.members(), "1S 2S 3w");
  rig.beat(3);
  ASSERT_EQ(rig.members(), "1S 2S 3y");
  rig.report(3, kRepaired, rig.version());
  rig.report(1, kRepaired, rig.version());
  rig.report(2, kRepaired, ChainVersion(rig.version().value - 1));
  rig.report(2, kRepaired, ChainVersion(rig.version().value + 1));
  EXPECT_EQ(rig.members(), "1S 2S 3y");
  rig.report(2, kRepaired, rig.version());
  EXPECT_EQ(rig.members(), "1S 2S 3S");
}

TEST(Chains, a_drained_copy_leaves_by_syncing_when_another_is_complete) {
  Rig rig(3);
  rig.make_chain({1, 2});
  rig.say(Drain{NodeId(1)});
  EXPECT_EQ(rig.members(), "1S 2S 3y");
  rig.report(2, kRepaired, rig.version());
  EXPECT_EQ(rig.members(), "2S 3S 1y");
  // It may take itself for serving until it knows.
  rig.tick_after(milliseconds(250));
  EXPECT_EQ(rig.members(), "2S 3S 1y");
  rig.beat(1);
  EXPECT_EQ(rig.members(), "2S 3S");
  EXPECT_EQ(chains_on(rig.state, NodeId(1)), 0U);
}

TEST(Chains, a_drain_waits_while_another_copy_is_down) {
  Rig rig(3);
  rig.make_chain({1, 2});
  rig.say(Drain{NodeId(1)});
  rig.report(2, kRepaired, rig.version());
  ASSERT_EQ(rig.members(), "2S 3S 1y");
  Rig other(4);
  other.make_chain({1, 2, 3});
  other.say(Leave{other.sender(2)});
  other.now += milliseconds(1);
  other.beat(1);
  other.say(Drain{NodeId(1)});
  ASSERT_EQ(other.members(), "1S 3S 4y 2w");
  other.report(3, kRepaired, other.version());
  EXPECT_EQ(other.members(), "1S 3S 4S 2w");
}

TEST(Chains, a_lost_copy_is_replaced_after_ten_minutes_unless_a_tenth_of_all_is_missing) {
  Rig rig(4);
  rig.make_chain({1, 2});
  rig.pass(minutes(9), 2);
  EXPECT_EQ(rig.members(), "1S 2w");
  rig.pass(minutes(2), 2);
  EXPECT_EQ(rig.members(), "1S 3y 2w");
  Rig many(4);
  many.make_chain({1, 2});
  many.say(Leave{many.sender(3)});
  for (int i = 0; i < 4000; ++i) {
    many.beat(1);
    many.beat(4);
    many.tick_after(milliseconds(250));
  }
  EXPECT_EQ(many.members(), "1S 2w");
}

TEST(Chains, the_most_accused_node_leaves_for_a_minute) {
  Rig rig(3);
  rig.make_chain({1, 2, 3});
  Heartbeat by_1 = rig.heartbeat(1), by_2 = rig.heartbeat(2), by_3 = rig.heartbeat(3);
  by_1.accused = {NodeId(3)};
  by_2.accused = {NodeId(3)};
  by_3.accused = {NodeId(1), NodeId(2)};
  for (const Heartbeat& said : {by_1, by_2, by_3}) rig.beat(said);
  rig.tick_after(milliseconds(250));
  EXPECT_EQ(rig.members(), "1S 2S 3y");
  rig.beat(3);
  EXPECT_EQ(rig.members(), "1S 2S 3w");
  rig.pass(seconds(58));
  EXPECT_EQ(rig.members(), "1S 2S 3w");
  rig.pass(seconds(3));
  EXPECT_EQ(rig.members(), "1S 2S 3y");
}

TEST(Chains, the_last_copy_serves_on_whatever_is_said_of_its_node) {
  Rig rig(2);
  rig.make_chain({1});
  Heartbeat said = rig.heartbeat(2);
  said.accused = {NodeId(1)};
  rig.beat(said);
  rig.tick_after(milliseconds(250));
  EXPECT_TRUE(rig.state.at(NodeId(1)).is_suspected());
  EXPECT_EQ(rig.members(), "1S");
}

TEST(Chains, a_copy_that_failed_leaves_at_once_and_is_repaired_after_a_while) {
  Rig rig(2);
  rig.make_chain({1, 2});
  rig.report(2, kFailed, rig.version());
  EXPECT_EQ(rig.members(), "1S 2w");
  rig.pass(seconds(1));
  EXPECT_EQ(rig.members(), "1S 2w");
  rig.pass(seconds(2));
  EXPECT_EQ(rig.members(), "1S 2y");
}

TEST(Chains, one_that_failed_alone_begins_anew_after_a_while) {
  Rig rig(1);
  rig.make_chain({1});
  rig.report(1, kFailed, rig.version());
  EXPECT_EQ(rig.members(), "1!");
  rig.pass(seconds(3));
  EXPECT_EQ(rig.members(), "1S");
  EXPECT_EQ(rig.version(), ChainVersion(3));
}

TEST(Chains, nobody_comes_back_before_the_syncing_one_knows_that_it_does_not_serve) {
  Rig rig(3);
  rig.make_chain({1, 2});
  rig.say(Drain{NodeId(1)});
  rig.report(2, kRepaired, rig.version());
  ASSERT_EQ(rig.members(), "2S 3S 1y");
  rig.say(Leave{rig.sender(2)});
  rig.say(Leave{rig.sender(3)});
  EXPECT_EQ(rig.members(), "2S 3S 1y");
  rig.beat(1);
  EXPECT_EQ(rig.members(), "2! 3! 1w");
}

TEST(Chains, a_bad_copy_waits_until_the_one_that_leaves_before_it_knows) {
  Rig rig(4);
  rig.make_chain({1, 2, 3});
  rig.say(Drain{NodeId(1)});
  rig.report(3, kRepaired, rig.version());
  ASSERT_EQ(rig.members(), "2S 3S 4S 1y");
  Heartbeat said = rig.heartbeat(3);
  said.accused = {NodeId(2)};
  rig.beat(said);
  rig.tick_after(milliseconds(250));
  ASSERT_TRUE(rig.state.at(NodeId(2)).is_suspected());
  EXPECT_EQ(rig.members(), "2S 3S 4S 1y");
  rig.beat(1);
  EXPECT_EQ(rig.members(), "3S 4S 2y 1w");
}

TEST(Orders, the_last_full_copy_is_given_up_by_force_only) {
  Rig rig(2);
  rig.make_chain({1, 2});
  rig.say(Leave{rig.sender(2)});
  rig.now += milliseconds(1);
  rig.beat(1);
  ASSERT_EQ(rig.members(), "1S 2w");
  EXPECT_EQ(refusal(rig.say(Forget{TargetId(1)})), Code::not_permitted);
  EXPECT_EQ(refusal(rig.say(Remove{NodeId(1)})), Code::not_permitted);
  rig.say(Remove{NodeId(1), true});
  rig.beat(2);
  EXPECT_EQ(rig.members(), "1S 2y");  // it may still serve
  for (int i = 0; i < 24; ++i) {
    rig.beat(2);
    rig.tick_after(milliseconds(250));
  }
  EXPECT_EQ(rig.members(), "2S");
}

TEST(Orders, a_chain_of_which_nothing_is_left_begins_anew) {
  Rig rig(2);
  rig.make_chain({1});
  rig.say(Forget{TargetId(1), true});
  rig.pass(seconds(6));
  EXPECT_EQ(rig.members(), "2S");
  EXPECT_EQ(rig.version(), ChainVersion(3));
}

TEST(Orders, tables_that_would_be_wrong_are_refused) {
  Rig rig(2);
  EXPECT_EQ(refusal(rig.make_chain({1, 1})), Code::invalid_argument);
  EXPECT_EQ(refusal(rig.make_chain({1, 9})), Code::invalid_argument);
  EXPECT_EQ(refusal(rig.make_chain({})), Code::invalid_argument);
  rig.say(Leave{rig.sender(2)});
  EXPECT_EQ(refusal(rig.make_chain({1, 2})), Code::invalid_argument);
  EXPECT_EQ(refusal(rig.make_chain({1})), Code::ok);
  EXPECT_EQ(rig.state.tables.size(), 1U);
}

TEST(Orders, a_move_whose_destination_is_gone_is_given_up) {
  Rig rig(3);
  rig.make_chain({1, 2});
  EXPECT_EQ(refusal(rig.say(Move{ChainId(1), TargetId(1), TargetId(2)})), Code::invalid_argument);
  rig.say(Move{ChainId(1), TargetId(1), TargetId(3)});
  EXPECT_EQ(rig.members(), "1S 2S 3y");
  rig.say(Drain{NodeId(3)});
  rig.pass(seconds(1));
  EXPECT_EQ(rig.members(), "1S 2S");
}

TEST(Chains, one_that_finds_no_target_does_not_keep_others_from_theirs) {
  Rig rig(5);
  for (const uint32_t disk : {3, 4, 5}) rig.state.at(TargetId(disk)).media = MediaClass::disk;
  CreateTable many;
  many.copies = 2;
  many.chains.assign(3 * limits::kChoicesPerStep, {TargetId(1), TargetId(2)});
  rig.say(many);
  CreateTable one;
  one.copies = 2;
  one.media = MediaClass::disk;
  one.chains = {{TargetId(3), TargetId(4)}};
  rig.say(one);
  const auto last = static_cast<uint32_t>(rig.state.chains.size());
  rig.state.at(TargetId(5)).seen.full = true;
  rig.say(Forget{TargetId(2)});
  rig.say(Forget{TargetId(4)});
  rig.pass(seconds(8));  // it says that it is not
  EXPECT_EQ(rig.members(1), "1S");
  EXPECT_EQ(rig.members(last), "3S 5y");
}

TEST(State, a_node_is_told_what_changed_since_its_map) {
  Rig rig(3);
  rig.make_chain({1, 2});
  const MapVersion before = rig.state.version;
  EXPECT_TRUE(changed_since(rig.state, before).empty());
  rig.say(Drain{NodeId(1)});
  const Changes changes = changed_since(rig.state, before);
  EXPECT_TRUE(changes.root);
  EXPECT_EQ(changes.nodes, std::vector<NodeId>{NodeId(1)});
  EXPECT_EQ(changes.chains, std::vector<ChainId>{ChainId(1)});
  EXPECT_TRUE(changes.targets.empty() && changes.tables.empty());
  EXPECT_EQ(changed_since(rig.state, MapVersion()).targets.size(), 3U);
}

TEST(State, the_controller_counts_a_lease_longer_than_the_slowest_clock_of_a_node) {
  // Both may differ by a tenth, in opposite directions.
  const Timing timing;
  EXPECT_GE(timing.lease_counted() * 9, timing.lease * 11);
  Rig rig(2);
  rig.make_chain({1, 2});
  rig.beat(2);
  const engine::Time slowest = rig.now + timing.lease * 11 / 9;
  while (rig.now < slowest) {
    rig.beat(1);
    EXPECT_EQ(rig.members(), "1S 2S");
    rig.tick_after(milliseconds(50));
  }
}

TEST(State, what_was_loaded_counts_all_leases_as_granted_now) {
  Rig rig(2);
  rig.make_chain({1, 2});
  begin(rig.state, rig.now);
  rig.now += rig.state.timing.lease_counted() - milliseconds(1);
  rig.say(Tick{});
  EXPECT_EQ(rig.members(), "1S 2S");
  rig.now += milliseconds(1);
  rig.say(Tick{});
  EXPECT_EQ(rig.members(), "1! 2!");
}

}  // namespace
}  // namespace penstock::controller
