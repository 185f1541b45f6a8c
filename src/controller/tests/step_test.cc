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

TEST(Membership, names_are_on_one_node_until_that_is_removed) {
  Rig rig(2);
  const auto join_with_names = [&](uint32_t node) {
    Join join{rig.state.cluster, uuid_of(node), uuid_of(2000 + node), {}, true};
    join.facts.roles = kRoleMeta | kRoleAgent;
    return rig.say(join);
  };
  EXPECT_EQ(join_with_names(11).admissions.size(), 1U);
  const Actions second = join_with_names(12);
  EXPECT_TRUE(second.admissions.empty());
  ASSERT_EQ(second.refusals.size(), 1U);
  EXPECT_EQ(second.refusals.front().code, Code::not_permitted);
  // A node that is there does not get them by a new start either, and the one that has them does.
  EXPECT_TRUE(join_with_names(2).admissions.empty());
  EXPECT_EQ(join_with_names(11).admissions.size(), 1U);
  rig.say(Remove{NodeId(3), true});
  EXPECT_EQ(join_with_names(12).admissions.size(), 1U);
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

// Repairs those that have a copy on its way now; says how many.
size_t repair_those_that_sync(Rig& rig) {
  std::vector<uint32_t> syncing;
  for (uint32_t id = 1; id <= rig.state.chains.size(); ++id) {
    if (count_of(rig.chain(id), CopyState::syncing) > 0) syncing.push_back(id);
  }
  for (const uint32_t id : syncing) rig.repaired(rig.chain(id));
  return syncing.size();
}

TEST(Chains, a_target_that_is_back_is_repaired_a_few_chains_at_a_time) {
  Rig rig(2);
  for (int i = 0; i < 20; ++i) rig.make_chain({1, 2});
  rig.beat_all();
  rig.restart(2);
  rig.pass(seconds(1));
  EXPECT_EQ(rig.state.at(TargetId(2)).seen.syncing, limits::kRepairsPerTarget);
  for (int left = 20; left > 0 && health(rig.state).whole < 20; --left) {
    EXPECT_LE(repair_those_that_sync(rig), limits::kRepairsPerTarget);
    rig.pass(milliseconds(500));
  }
  EXPECT_EQ(health(rig.state).whole, 20U);
}

TEST(Chains, a_drained_node_hands_over_a_few_chains_at_a_time_and_a_missing_copy_goes_first) {
  Rig rig(3);
  rig.state.balancing.next_look = rig.now + minutes(10);
  for (int i = 0; i < 10; ++i) rig.make_chain({1, 2});
  rig.make_chain({1, 3});
  rig.beat_all();
  rig.say(Drain{NodeId(2)});
  rig.pass(milliseconds(500));
  EXPECT_EQ(rig.state.at(TargetId(3)).seen.syncing, limits::kMovesPerTarget);
  // Its own copy need not wait for those.
  rig.restart(3);
  rig.pass(milliseconds(500));
  EXPECT_EQ(count_of(rig.chain(11), CopyState::syncing), 1U);
  for (int left = 40; left > 0 && chains_on(rig.state, NodeId(2)) > 0; --left) {
    repair_those_that_sync(rig);
    rig.pass(milliseconds(500));
    EXPECT_LE(rig.state.at(TargetId(3)).seen.syncing, limits::kMovesPerTarget + 1);
    for (const Chain& chain : rig.state.chains) EXPECT_GE(count_of(chain, CopyState::serving), 1U);
  }
  EXPECT_EQ(chains_on(rig.state, NodeId(2)), 0U);
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

TEST(Chains, the_most_accused_node_leaves_for_a_while) {
  Rig rig(3);
  rig.make_chain({1, 2, 3});
  rig.pass(limits::kLease);
  Heartbeat by_1 = rig.heartbeat(1), by_2 = rig.heartbeat(2), by_3 = rig.heartbeat(3);
  by_1.accused = {NodeId(3)};
  by_2.accused = {NodeId(3)};
  by_3.accused = {NodeId(1), NodeId(2)};
  for (const Heartbeat& said : {by_1, by_2, by_3}) rig.beat(said);
  rig.tick_after(milliseconds(250));
  EXPECT_EQ(rig.members(), "1S 2S 3y");
  rig.beat(3);
  EXPECT_EQ(rig.members(), "1S 2S 3w");
  rig.pass(seconds(9));
  EXPECT_EQ(rig.members(), "1S 2S 3w");
  rig.pass(seconds(2));
  EXPECT_EQ(rig.members(), "1S 2S 3y");
}

TEST(Chains, a_node_that_is_accused_again_and_again_stays_away_for_longer) {
  Rig rig(3);
  rig.make_chain({1, 2, 3});
  rig.pass(limits::kLease);
  const auto accuse_until_suspected = [&rig] {
    Heartbeat said = rig.heartbeat(1);
    said.accused = {NodeId(3)};
    rig.beat(said);
    rig.tick_after(milliseconds(250));
    ASSERT_TRUE(rig.state.at(NodeId(3)).is_suspected());
  };
  const auto seconds_away = [&rig] {
    int quarters = 0;
    while (rig.state.at(NodeId(3)).is_suspected() && quarters < 400) {
      rig.pass(milliseconds(250));
      ++quarters;
    }
    return quarters / 4;
  };
  for (const int away : {10, 20, 40, 60, 60}) {
    accuse_until_suspected();
    EXPECT_EQ(seconds_away(), away);
  }
  rig.pass(limits::kSuspicionForgotten);
  accuse_until_suspected();
  EXPECT_EQ(seconds_away(), 10) << "long ago";
}

TEST(Chains, a_new_process_does_not_answer_for_the_last_one) {
  Rig rig(3);
  rig.make_chain({1, 2, 3});
  rig.restart(3);
  Heartbeat said = rig.heartbeat(1);
  said.accused = {NodeId(3)};
  rig.beat(said);
  rig.tick_after(milliseconds(250));
  EXPECT_FALSE(rig.state.at(NodeId(3)).is_suspected()) << "the accuser has not noticed yet";
  for (engine::Duration passed{}; passed < limits::kLease; passed += milliseconds(250)) {
    Heartbeat again = rig.heartbeat(1);
    again.accused = {NodeId(3)};
    rig.beat(again);
    rig.beat(2);
    rig.beat(3);
    rig.tick_after(milliseconds(250));
  }
  EXPECT_TRUE(rig.state.at(NodeId(3)).is_suspected()) << "it goes on";
}

TEST(Chains, the_last_copy_serves_on_whatever_is_said_of_its_node) {
  Rig rig(2);
  rig.make_chain({1});
  rig.pass(limits::kLease);
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
  rig.pass(limits::kLease);
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

TEST(Orders, a_node_that_runs_and_has_copies_is_removed_by_force_only) {
  Rig rig(4);
  rig.make_chain({1, 2, 3});
  const Actions refused = rig.say(Remove{NodeId(3)});
  EXPECT_EQ(refusal(refused), Code::not_permitted);
  EXPECT_NE(refused.refusals.front().reason.find("drain it first"), std::string::npos);
  EXPECT_EQ(rig.state.at(NodeId(3)).standing, Standing::joined);
  EXPECT_TRUE(rig.say(Remove{NodeId(4)}).refusals.empty()) << "it has nothing";
  rig.say(Drain{NodeId(3)});
  EXPECT_NE(rig.say(Remove{NodeId(3)}).refusals.front().reason.find("wait until"),
            std::string::npos);
  // Once its lease is over it may go.
  rig.pass(seconds(8), 3);
  ASSERT_TRUE(rig.state.at(NodeId(3)).seen.silent);
  EXPECT_TRUE(rig.say(Remove{NodeId(3)}).refusals.empty());
}

TEST(Orders, a_node_with_the_controller_stays_and_one_with_the_names_goes_by_force_only) {
  Rig rig(1);
  const auto join = [&](uint32_t tag, uint8_t roles) {
    Join newcomer{rig.state.cluster, uuid_of(tag), uuid_of(2000 + tag), {}, true};
    newcomer.facts.roles = roles;
    return rig.say(newcomer).admissions.front().node;
  };
  const NodeId controller = join(50, kRoleController);
  const NodeId names = join(51, kRoleMeta | kRoleAgent);
  for (const bool force : {false, true}) {
    EXPECT_EQ(refusal(rig.say(Remove{controller, force})), Code::not_permitted);
  }
  EXPECT_EQ(refusal(rig.say(Remove{names})), Code::not_permitted);
  EXPECT_TRUE(rig.say(Remove{names, true}).refusals.empty());
}

TEST(Orders, force_removes_a_node_that_runs) {
  Rig rig(4);
  rig.make_chain({1, 2, 3});
  EXPECT_TRUE(rig.say(Remove{NodeId(3), true}).refusals.empty());
  EXPECT_EQ(rig.state.at(NodeId(3)).standing, Standing::removed);
}

TEST(Orders, what_a_drain_cannot_place_is_known) {
  Rig rig(3);
  rig.make_chain({1, 2, 3});
  rig.make_chain({1, 2});
  EXPECT_EQ(chains_without_place(rig.state, NodeId(2)), 0U) << "it stays";
  rig.say(Drain{NodeId(2)});
  EXPECT_EQ(chains_on(rig.state, NodeId(2)), 2U);
  EXPECT_EQ(chains_without_place(rig.state, NodeId(2)), 1U);
  EXPECT_LT(time_to_drain(rig.state, NodeId(2)), engine::Duration::zero());
  rig.pass(seconds(1));
  rig.repaired(rig.chain(2));
  rig.pass(seconds(1));
  EXPECT_EQ(chains_on(rig.state, NodeId(2)), 1U);
  EXPECT_EQ(time_to_drain(rig.state, NodeId(2)), seconds(2));
  rig.say(Drain{NodeId(2), false});
  EXPECT_EQ(chains_without_place(rig.state, NodeId(2)), 0U);
}

TEST(Orders, a_target_is_drained_and_its_node_stays) {
  Rig rig(4);
  rig.make_chain({1, 2, 3});
  const Actions refused = rig.say(Forget{TargetId(3)});
  ASSERT_EQ(refusal(refused), Code::not_permitted);
  EXPECT_NE(refused.refusals.front().reason.find("drain it first"), std::string::npos);
  EXPECT_FALSE(rig.state.at(TargetId(3)).forgotten);

  rig.say(DrainTarget{TargetId(3)});
  EXPECT_EQ(rig.state.at(NodeId(3)).standing, Standing::joined);
  EXPECT_EQ(refusal(rig.make_chain({1, 2, 3})), Code::invalid_argument) << "it takes nothing new";
  EXPECT_NE(rig.say(Forget{TargetId(3)}).refusals.front().reason.find("wait until"),
            std::string::npos);
  rig.pass(seconds(1));
  ASSERT_EQ(rig.members(), "1S 2S 3S 4y") << "it serves until another does";
  rig.repaired(rig.chain());
  rig.pass(seconds(1));
  EXPECT_EQ(rig.members(), "1S 2S 4S");

  EXPECT_TRUE(rig.say(Forget{TargetId(3)}).refusals.empty());
  EXPECT_TRUE(rig.state.at(TargetId(3)).forgotten);
  EXPECT_TRUE(rig.say(Forget{TargetId(3)}).refusals.empty()) << "what is done is done";
  EXPECT_EQ(refusal(rig.say(DrainTarget{TargetId(3)})), Code::not_found);
}

TEST(Orders, what_a_target_that_drains_cannot_hand_over_is_known) {
  Rig rig(3);
  rig.make_chain({1, 2, 3});
  rig.make_chain({1, 2});
  rig.say(DrainTarget{TargetId(2)});
  EXPECT_EQ(chains_without_place(rig.state, NodeId(2)), 1U);
  EXPECT_TRUE(has_to_hand_over(rig.state, rig.state.at(NodeId(2))));
  rig.pass(seconds(1));
  rig.repaired(rig.chain(2));
  rig.pass(seconds(1));
  EXPECT_EQ(time_to_drain(rig.state, NodeId(2)), seconds(2)) << "one in two seconds, and one left";
  rig.say(DrainTarget{TargetId(2), false});
  EXPECT_EQ(chains_without_place(rig.state, NodeId(2)), 0U);
  EXPECT_LT(time_to_drain(rig.state, NodeId(2)), engine::Duration::zero());
}

TEST(Orders, a_target_that_is_down_is_taken_off_at_once) {
  Rig rig(4);
  rig.make_chain({1, 2, 3});
  rig.pass(seconds(8), 3);
  ASSERT_EQ(rig.members(), "1S 2S 3w");
  EXPECT_TRUE(rig.say(Forget{TargetId(3)}).refusals.empty());
  EXPECT_EQ(rig.members(), "1S 2S 4y") << "others need not wait ten minutes";
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
  EXPECT_EQ(refusal(rig.say(Move{kFirstSharedChain, TargetId(1), TargetId(2)})),
            Code::invalid_argument);
  rig.say(Move{kFirstSharedChain, TargetId(1), TargetId(3)});
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
  rig.say(Forget{TargetId(2), true});
  rig.say(Forget{TargetId(4), true});
  rig.pass(seconds(8));  // it says that it is not
  EXPECT_EQ(rig.members(1), "1S");
  EXPECT_EQ(rig.members(last), "3S 5y");
}

TEST(Fences, are_only_raised_and_published) {
  Rig rig(2);
  const MapVersion before = rig.state.version;
  const Actions raised = rig.say(Fence{NodeId(2), 5});
  EXPECT_EQ(raised.changes.fences, std::vector<NodeId>{NodeId(2)});
  EXPECT_TRUE(raised.published && raised.changes.root && raised.changes.nodes.empty());
  EXPECT_EQ(rig.state.version, MapVersion(before.value + 1));
  const Fenced fenced{NodeId(2), 5, rig.state.version};
  EXPECT_EQ(rig.state.fences.at(NodeId(2)), fenced);
  for (const uint64_t lowest : {5, 4, 1}) {
    EXPECT_TRUE(rig.say(Fence{NodeId(2), lowest}).changes.empty()) << lowest;
    EXPECT_EQ(rig.state.fences.at(NodeId(2)), fenced);
  }
  EXPECT_EQ(changed_since(rig.state, before).fences, std::vector<NodeId>{NodeId(2)});
  rig.say(Fence{NodeId(2), limits::kSessionMost});
  EXPECT_EQ(rig.state.fences.at(NodeId(2)).lowest, limits::kSessionMost);
  EXPECT_EQ(rig.state.fences.size(), 1U);
  EXPECT_EQ(find_fault(rig.state), "");
}

TEST(Fences, of_what_is_no_session_are_refused) {
  Rig rig(2);
  EXPECT_EQ(refusal(rig.say(Fence{NodeId(3), 1})), Code::not_found);
  EXPECT_EQ(refusal(rig.say(Fence{NodeId(0), 1})), Code::not_found);
  EXPECT_EQ(refusal(rig.say(Fence{NodeId(1), 0})), Code::invalid_argument);
  EXPECT_EQ(refusal(rig.say(Fence{NodeId(1), limits::kSessionMost + 1})), Code::invalid_argument);
  EXPECT_TRUE(rig.state.fences.empty());
}

TEST(Fences, stay_when_their_node_is_removed_and_are_raised_then) {
  Rig rig(2);
  rig.say(Fence{NodeId(2), 5});
  rig.say(Remove{NodeId(2), true});
  EXPECT_EQ(rig.state.fences.at(NodeId(2)).lowest, 5U);
  EXPECT_EQ(refusal(rig.say(Fence{NodeId(2), 6})), Code::ok);
  EXPECT_EQ(rig.state.fences.at(NodeId(2)).lowest, 6U);
}

// Whoever applied an older map says so in its heartbeats, as the rig's nodes do not.
Heartbeat with_map(Rig& rig, uint32_t node, MapVersion applied) {
  Heartbeat heartbeat = rig.heartbeat(node);
  heartbeat.applied = applied;
  return heartbeat;
}

TEST(Fences, are_in_force_when_all_that_may_serve_act_by_their_map) {
  Rig rig(3);
  const MapVersion before = rig.state.version;
  rig.say(Fence{NodeId(3), 5});
  EXPECT_FALSE(is_fenced(rig.state, NodeId(3), 5));
  rig.beat(1);
  rig.beat(2);
  EXPECT_FALSE(is_fenced(rig.state, NodeId(3), 5)) << "its own targets count as others do";
  rig.beat(with_map(rig, 3, before));
  EXPECT_FALSE(is_fenced(rig.state, NodeId(3), 5)) << "it got a lease, which it may use already";
  rig.beat(3);
  EXPECT_TRUE(is_fenced(rig.state, NodeId(3), 5));
  EXPECT_TRUE(is_fenced(rig.state, NodeId(3), 1));
  EXPECT_FALSE(is_fenced(rig.state, NodeId(3), 6));
  EXPECT_FALSE(is_fenced(rig.state, NodeId(1), 1));
  // Other changes of the map do not undo it, and a higher one is another.
  rig.say(Drain{NodeId(1)});
  EXPECT_TRUE(is_fenced(rig.state, NodeId(3), 5));
  rig.say(Fence{NodeId(3), 6});
  EXPECT_FALSE(is_fenced(rig.state, NodeId(3), 5));
}

TEST(Fences, are_in_force_when_those_that_do_not_know_have_no_lease_any_more) {
  Rig rig(2);
  const MapVersion before = rig.state.version;
  rig.beat(2);
  const engine::Time end = rig.now + rig.state.timing.lease_counted();
  rig.say(Fence{NodeId(1), 5});
  while (rig.now < end) {
    rig.beat(1);
    EXPECT_FALSE(is_fenced(rig.state, NodeId(1), 5));
    rig.tick_after(milliseconds(50));
  }
  EXPECT_TRUE(is_fenced(rig.state, NodeId(1), 5));
  // It comes back with its old map: its lease counts with the new one only, but it may have it now.
  rig.beat(with_map(rig, 2, before));
  rig.beat(2);
  EXPECT_TRUE(is_fenced(rig.state, NodeId(1), 5));
}

TEST(Fences, do_not_wait_for_targets_that_are_closed) {
  Rig rig(3);
  rig.say(Fence{NodeId(1), 5});
  rig.beat(1);
  Heartbeat without = with_map(rig, 2, MapVersion());
  without.targets.clear();
  rig.beat(without);
  EXPECT_FALSE(is_fenced(rig.state, NodeId(1), 5));
  rig.say(Leave{rig.sender(3)});
  EXPECT_TRUE(is_fenced(rig.state, NodeId(1), 5));
}

TEST(Fences, are_asked_of_all_again_by_another_controller) {
  Rig rig(2);
  rig.say(Fence{NodeId(1), 5});
  rig.beat_all();
  ASSERT_TRUE(is_fenced(rig.state, NodeId(1), 5));
  begin(rig.state, rig.now);
  EXPECT_FALSE(is_fenced(rig.state, NodeId(1), 5));
  rig.beat(1);
  EXPECT_FALSE(is_fenced(rig.state, NodeId(1), 5));
  rig.beat(2);
  EXPECT_TRUE(is_fenced(rig.state, NodeId(1), 5));
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
  EXPECT_EQ(changes.chains, std::vector<ChainId>{kFirstSharedChain});
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
