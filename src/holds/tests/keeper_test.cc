#include <gtest/gtest.h>

#include "penstock/holds.h"

namespace penstock::holds {
namespace {

using std::chrono::seconds;

constexpr AgentId kAgent{NodeId{1}, 1};
constexpr InodeId kInode{7};
constexpr uint16_t kLife = 1;

Stamp stamp_of(uint64_t number, uint16_t life = kLife) {
  return Stamp(uint64_t{life} << 48 | number);
}

class HoldsKeeper : public testing::Test {
 protected:
  HoldsKeeper() { keeper_.begun(kAgent, true, now_, kLife); }

  // What it says next, which must be of that kind.
  template <class Kind>
  Kind next() {
    for (KeeperAction& action : keeper_.take_actions()) said_.push_back(std::move(action));
    EXPECT_FALSE(said_.empty());
    if (said_.empty()) return Kind{};
    const KeeperAction first = said_.front();
    said_.erase(said_.begin());
    EXPECT_TRUE(std::holds_alternative<Kind>(first)) << first.index();
    return std::holds_alternative<Kind>(first) ? std::get<Kind>(first) : Kind{};
  }
  bool says_nothing() { return said_.empty() && keeper_.take_actions().empty(); }

  RequestId ask(Hold hold) {
    keeper_.wait(kInode, hold);
    const Want want = next<Ask>().want;
    EXPECT_EQ(want.hold, hold);
    return want.request;
  }
  void give(RequestId request, Hold hold, Stamp at) {
    keeper_.given({kAgent, request, kInode, hold, at}, now_);
    EXPECT_EQ(next<Resume>().inode, kInode);
  }
  void have_new(Hold hold, Stamp at) {
    give(ask(hold), hold, at);
    keeper_.resumed(kInode);
  }
  // For so long that it does not stay.
  void have(Hold hold, Stamp at) {
    have_new(hold, at);
    now_ += limits::kStayMost;
  }
  Recall recall(Stamp at, Stamp grant, Hold leave = Hold::none) {
    return {kAgent, kInode, at, grant, leave, false, {}};
  }

  engine::Time now_{seconds(100)};
  Keeper keeper_{kAgent};
  std::vector<KeeperAction> said_;
};

TEST_F(HoldsKeeper, an_operation_begins_under_a_hold_and_asks_for_it_before) {
  EXPECT_FALSE(keeper_.enter(kInode, Hold::shared, now_));
  have(Hold::shared, stamp_of(10));
  EXPECT_TRUE(keeper_.enter(kInode, Hold::shared, now_));
  EXPECT_FALSE(keeper_.enter(kInode, Hold::exclusive, now_));
  EXPECT_TRUE(says_nothing());
}

TEST_F(HoldsKeeper, a_recall_is_answered_when_what_runs_has_ended_and_all_is_dropped) {
  have(Hold::exclusive, stamp_of(10));
  ASSERT_TRUE(keeper_.enter(kInode, Hold::exclusive, now_));
  const uint64_t generation = keeper_.generation(kInode);
  keeper_.recalled(recall(stamp_of(11), stamp_of(10), Hold::shared), now_);
  EXPECT_FALSE(keeper_.enter(kInode, Hold::shared, now_));
  EXPECT_TRUE(says_nothing());
  EXPECT_TRUE(keeper_.is_good(kInode, kAgent, generation, now_));
  keeper_.leave(kInode, generation);
  const Drop drop = next<Drop>();
  EXPECT_EQ(drop.leave, Hold::shared);
  keeper_.dropped(kInode, drop.recall);
  const Back back = next<Answer>().back;
  EXPECT_EQ(back.recall, stamp_of(11));
  EXPECT_EQ(back.left, Hold::shared);
  EXPECT_TRUE(keeper_.enter(kInode, Hold::shared, now_));
  // It is said again, as the answer was lost.
  next<Resume>();
  keeper_.recalled(recall(stamp_of(11), stamp_of(10), Hold::shared), now_);
  EXPECT_EQ(next<Answer>().back.left, Hold::shared);
}

TEST_F(HoldsKeeper, what_was_recalled_before_it_came_is_used_for_one_turn) {
  const RequestId request = ask(Hold::exclusive);
  keeper_.recalled(recall(stamp_of(11), stamp_of(10)), now_);
  EXPECT_TRUE(says_nothing());
  give(request, Hold::exclusive, stamp_of(10));
  EXPECT_TRUE(keeper_.enter(kInode, Hold::exclusive, now_));
  keeper_.resumed(kInode);
  now_ += limits::kStayMost;
  keeper_.look_at_stays(now_);
  EXPECT_FALSE(keeper_.enter(kInode, Hold::exclusive, now_));
  keeper_.leave(kInode, keeper_.generation(kInode));
  EXPECT_EQ(next<Drop>().recall, stamp_of(11));
}

TEST_F(HoldsKeeper, a_recall_of_what_never_came_takes_what_was_there_before) {
  have(Hold::shared, stamp_of(10));
  keeper_.recalled(recall(stamp_of(21), stamp_of(20), Hold::shared), now_);
  EXPECT_EQ(next<Drop>().leave, Hold::none);
  keeper_.dropped(kInode, stamp_of(21));
  EXPECT_EQ(next<Answer>().back.left, Hold::none);
  EXPECT_EQ(keeper_.hold_of(kInode), Hold::none);
}

TEST_F(HoldsKeeper, an_answer_that_a_recall_has_overtaken_gives_nothing) {
  have(Hold::shared, stamp_of(10));
  keeper_.recalled(recall(stamp_of(30), stamp_of(10)), now_);
  keeper_.dropped(kInode, next<Drop>().recall);
  next<Answer>();
  next<Resume>();
  give(ask(Hold::shared), Hold::shared, stamp_of(29));
  EXPECT_EQ(keeper_.hold_of(kInode), Hold::none);
  EXPECT_FALSE(keeper_.enter(kInode, Hold::shared, now_));
}

TEST_F(HoldsKeeper, a_recall_that_was_answered_and_forgotten_takes_no_later_grant) {
  have(Hold::shared, stamp_of(10));
  keeper_.recalled(recall(stamp_of(11), stamp_of(10)), now_);
  keeper_.dropped(kInode, next<Drop>().recall);
  next<Answer>();
  next<Resume>();
  keeper_.resumed(kInode);  // nothing is left of it
  const RequestId request = ask(Hold::shared);
  keeper_.recalled(recall(stamp_of(11), stamp_of(10)), now_);
  give(request, Hold::shared, stamp_of(20));
  keeper_.resumed(kInode);
  EXPECT_TRUE(says_nothing());
  EXPECT_TRUE(keeper_.enter(kInode, Hold::shared, now_));
  keeper_.leave(kInode, keeper_.generation(kInode));
  keeper_.recalled(recall(stamp_of(21), stamp_of(20)), now_);
  EXPECT_EQ(next<Drop>().recall, stamp_of(21));
}

TEST_F(HoldsKeeper, less_is_recalled_while_the_answer_that_left_more_is_on_its_way) {
  have(Hold::exclusive, stamp_of(10));
  keeper_.recalled(recall(stamp_of(11), stamp_of(10), Hold::shared), now_);
  keeper_.dropped(kInode, next<Drop>().recall);
  EXPECT_EQ(next<Answer>().back.left, Hold::shared);
  next<Resume>();
  // Who recalls has not heard of that, and names the grant of before.
  keeper_.recalled(recall(stamp_of(12), stamp_of(10)), now_);
  EXPECT_FALSE(keeper_.enter(kInode, Hold::shared, now_));
  keeper_.dropped(kInode, next<Drop>().recall);
  const Back back = next<Answer>().back;
  EXPECT_EQ(back.recall, stamp_of(12));
  EXPECT_EQ(back.left, Hold::none);
}

TEST_F(HoldsKeeper, what_is_wanted_back_as_it_comes_is_used_for_a_moment) {
  have_new(Hold::exclusive, stamp_of(10));
  ASSERT_TRUE(keeper_.enter(kInode, Hold::exclusive, now_));
  keeper_.recalled(recall(stamp_of(11), stamp_of(10)), now_);
  const engine::Time end = now_ + limits::kStayMost;
  for (; now_ < end; now_ += limits::kStayLook) {
    keeper_.look_at_stays(now_);
    ASSERT_TRUE(keeper_.has_stays());
    EXPECT_TRUE(says_nothing());
    keeper_.leave(kInode, keeper_.generation(kInode));
    ASSERT_TRUE(keeper_.enter(kInode, Hold::exclusive, now_));
  }
  keeper_.look_at_stays(now_);
  EXPECT_FALSE(keeper_.has_stays());
  EXPECT_FALSE(keeper_.enter(kInode, Hold::exclusive, now_));
  keeper_.leave(kInode, keeper_.generation(kInode));
  EXPECT_EQ(next<Drop>().recall, stamp_of(11));
}

TEST_F(HoldsKeeper, who_writes_once_keeps_it_for_less_and_not_the_next_time) {
  have_new(Hold::exclusive, stamp_of(10));
  keeper_.use(kInode);
  ASSERT_TRUE(keeper_.enter(kInode, Hold::exclusive, now_));
  keeper_.leave(kInode, keeper_.generation(kInode));
  keeper_.recalled(recall(stamp_of(11), stamp_of(10)), now_);
  EXPECT_TRUE(says_nothing());
  now_ += limits::kStayUnused;
  keeper_.look_at_stays(now_);
  keeper_.dropped(kInode, next<Drop>().recall);
  next<Answer>();
  next<Resume>();
  for (uint64_t time = 1; time <= limits::kStaysLeftOut + 1; ++time) {
    have_new(Hold::exclusive, stamp_of(10 * time + 10));
    ASSERT_TRUE(keeper_.enter(kInode, Hold::exclusive, now_));
    keeper_.leave(kInode, keeper_.generation(kInode));
    keeper_.recalled(recall(stamp_of(10 * time + 11), stamp_of(10 * time + 10)), now_);
    if (time > limits::kStaysLeftOut) break;
    keeper_.dropped(kInode, next<Drop>().recall);
    next<Answer>();
    next<Resume>();
  }
  EXPECT_TRUE(keeper_.has_stays());
}

TEST_F(HoldsKeeper, names_that_change_leave_the_hold_and_nothing_older_is_kept) {
  have(Hold::shared, stamp_of(10));
  EXPECT_FALSE(keeper_.may_keep(kInode, stamp_of(9), now_));
  EXPECT_TRUE(keeper_.may_keep(kInode, stamp_of(15), now_));
  Recall told = recall(stamp_of(20), stamp_of(10), Hold::shared);
  told.keeps = true;
  told.names = {"new"};
  keeper_.recalled(told, now_);
  const Drop drop = next<Drop>();
  EXPECT_EQ(drop.names, told.names);
  EXPECT_TRUE(keeper_.enter(kInode, Hold::shared, now_));
  keeper_.dropped(kInode, drop.recall);
  EXPECT_EQ(next<Answer>().back.recall, stamp_of(20));
  EXPECT_FALSE(keeper_.may_keep(kInode, stamp_of(19), now_));
  EXPECT_TRUE(keeper_.may_keep(kInode, stamp_of(21), now_));
}

TEST_F(HoldsKeeper, what_it_has_is_frozen_after_its_lease_and_its_own_if_meta_says_so) {
  have(Hold::shared, stamp_of(10));
  ASSERT_TRUE(keeper_.enter(kInode, Hold::shared, now_));
  const uint64_t generation = keeper_.generation(kInode);
  const engine::Time sent = now_;
  now_ += limits::kAgentLease;
  EXPECT_FALSE(keeper_.enter(kInode, Hold::shared, now_));
  EXPECT_FALSE(keeper_.is_good(kInode, kAgent, generation, now_));
  EXPECT_FALSE(keeper_.may_keep(kInode, stamp_of(11), now_));
  // The answer to what was sent before is of a lease that is over.
  keeper_.renewed(kAgent, true, sent, kLife);
  EXPECT_FALSE(keeper_.enter(kInode, Hold::shared, now_));
  EXPECT_TRUE(says_nothing());
  keeper_.renewed(kAgent, true, now_, kLife);
  EXPECT_TRUE(keeper_.is_good(kInode, kAgent, generation, now_));
  EXPECT_TRUE(keeper_.enter(kInode, Hold::shared, now_));
}

TEST_F(HoldsKeeper, what_it_has_written_is_claimed_of_another_life_after_its_lease) {
  have(Hold::exclusive, stamp_of(10));
  ASSERT_TRUE(keeper_.enter(kInode, Hold::exclusive, now_));
  const uint64_t generation = keeper_.generation(kInode);
  now_ += 10 * limits::kAgentLease;
  keeper_.renewed(kAgent, true, now_, 2);
  EXPECT_FALSE(next<DropAll>().is_lost);
  keeper_.all_dropped();
  EXPECT_EQ(next<Claim>().has, (std::vector<std::pair<InodeId, Hold>>{{kInode, Hold::exclusive}}));
  // While it claims it may lapse again.
  now_ += limits::kAgentLease;
  EXPECT_TRUE(keeper_.is_claiming());
  keeper_.renewed(kAgent, true, now_, 2);
  keeper_.claimed(kAgent, 2, {{kInode, stamp_of(1, 2)}});
  EXPECT_TRUE(keeper_.is_good(kInode, kAgent, generation, now_));
  EXPECT_TRUE(keeper_.enter(kInode, Hold::exclusive, now_));
}

TEST_F(HoldsKeeper, nothing_is_its_own_after_its_end) {
  have(Hold::exclusive, stamp_of(10));
  ASSERT_TRUE(keeper_.enter(kInode, Hold::exclusive, now_));
  const uint64_t generation = keeper_.generation(kInode);
  now_ += limits::kAgentLease;
  // Of a life before, which has nothing to say any more.
  keeper_.renewed(kAgent, false, now_, kLife - 1);
  EXPECT_TRUE(says_nothing());
  keeper_.renewed(kAgent, false, now_, kLife);
  EXPECT_FALSE(keeper_.is_good(kInode, kAgent, generation, now_));
  EXPECT_TRUE(next<DropAll>().is_lost);
  keeper_.all_dropped();
  const AgentId again = next<Begin>().agent;
  EXPECT_EQ(again.session, kAgent.session + 1);
  keeper_.begun(again, true, now_, kLife);
  EXPECT_EQ(keeper_.hold_of(kInode), Hold::none);
  keeper_.leave(kInode, generation);  // it ended without a hold
  EXPECT_TRUE(says_nothing());
}

TEST_F(HoldsKeeper, another_life_is_told_of_what_is_exclusive_or_in_use) {
  have(Hold::exclusive, stamp_of(10));
  ASSERT_TRUE(keeper_.enter(kInode, Hold::exclusive, now_));
  const uint64_t generation = keeper_.generation(kInode);
  constexpr InodeId kRead{8}, kOpen{9};
  keeper_.wait(kRead, Hold::shared);
  keeper_.given({kAgent, next<Ask>().want.request, kRead, Hold::shared, stamp_of(12)}, now_);
  next<Resume>();
  keeper_.use(kOpen);
  keeper_.renewed(kAgent, true, now_, 2);
  EXPECT_FALSE(next<DropAll>().is_lost);
  EXPECT_FALSE(keeper_.enter(kInode, Hold::shared, now_));
  keeper_.all_dropped();
  auto has = next<Claim>().has;
  std::sort(has.begin(), has.end());
  ASSERT_EQ(has.size(), 2U);
  EXPECT_EQ(has[0], std::pair(kInode, Hold::exclusive));
  EXPECT_EQ(has[1], std::pair(kOpen, Hold::none));
  keeper_.claimed(kAgent, 2, {{kInode, stamp_of(1, 2)}});
  EXPECT_EQ(keeper_.hold_of(kRead), Hold::none);
  // What runs under what it has exclusive goes on.
  EXPECT_TRUE(keeper_.is_good(kInode, kAgent, generation, now_));
  keeper_.recalled(recall(stamp_of(2, 2), stamp_of(1, 2)), now_);
  keeper_.leave(kInode, generation);
  EXPECT_EQ(next<Drop>().recall, stamp_of(2, 2));
}

TEST_F(HoldsKeeper, what_is_in_use_is_said_with_each_answer) {
  have(Hold::shared, stamp_of(10));
  keeper_.use(kInode);
  keeper_.recalled(recall(stamp_of(11), stamp_of(10)), now_);
  keeper_.dropped(kInode, next<Drop>().recall);
  EXPECT_TRUE(next<Answer>().back.in_use);
}

TEST_F(HoldsKeeper, a_node_that_has_had_sessions_begins_with_the_next) {
  Keeper keeper(kAgent);
  keeper.begun(kAgent, false, now_, 1, 40);
  const auto actions = keeper.take_actions();
  ASSERT_EQ(actions.size(), 1U);
  const AgentId next = std::get<Begin>(actions[0]).agent;
  EXPECT_EQ(next, (AgentId{kAgent.node, 40}));
  // A number that is no larger is no help.
  keeper.begun(next, false, now_, 1, 3);
  EXPECT_EQ(std::get<Begin>(keeper.take_actions()[0]).agent.session, 41U);
}

TEST_F(HoldsKeeper, operations_that_are_void_run_no_more) {
  have(Hold::shared, stamp_of(10));
  ASSERT_TRUE(keeper_.enter(kInode, Hold::shared, now_));
  ASSERT_TRUE(keeper_.enter(kInode, Hold::shared, now_));
  EXPECT_EQ(keeper_.running(), 2U);
  keeper_.use(kInode);
  EXPECT_TRUE(keeper_.is_used(kInode));
  keeper_.renewed(kAgent, false, now_, 1);
  EXPECT_EQ(keeper_.running(), 0U);
  EXPECT_TRUE(keeper_.is_used(kInode));
}

}  // namespace
}  // namespace penstock::holds
