#include <algorithm>
#include <gtest/gtest.h>

#include "penstock/holds.h"

namespace penstock::holds {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr AgentId kA{NodeId{1}, 1}, kB{NodeId{2}, 1}, kC{NodeId{3}, 1};
constexpr InodeId kFile{7}, kOther{9};

class HoldsTable : public testing::Test {
 protected:
  HoldsTable() { begin(kA), begin(kB), begin(kC); }

  void begin(AgentId agent) { table_->begin(agent, now_); }
  RequestId want(AgentId agent, Hold hold, InodeId inode = kFile, bool waits = true) {
    const RequestId request(++requests_);
    EXPECT_TRUE(table_->want({agent, request, inode, hold, waits}, now_).ok());
    collect();
    return request;
  }
  void give_back(const Recall& recall, Hold left, bool in_use = false) {
    table_->back({recall.agent, recall.inode, recall.recall, left, in_use}, now_);
    collect();
  }
  void pass(engine::Duration time) {
    for (engine::Duration gone{}; gone < time; gone += limits::kTickInterval) {
      now_ += limits::kTickInterval;
      table_->tick(now_);
    }
    collect();
  }
  void barrier(uint64_t number, AgentId maker, std::vector<Part> parts) {
    table_->barrier({RequestId(number), maker, std::move(parts)}, now_);
    collect();
  }
  void over(uint64_t number) {
    table_->over(RequestId(number), true, now_);
    collect();
  }
  void collect() {
    for (Action& action : table_->take_actions()) actions_.push_back(std::move(action));
  }
  // Takes out all of a kind that were said since the last call for that kind.
  template <class Kind>
  std::vector<Kind> said() {
    std::vector<Kind> all;
    for (const Action& action : actions_) {
      if (const auto* one = std::get_if<Kind>(&action)) all.push_back(*one);
    }
    std::erase_if(actions_, [](const Action& one) { return std::holds_alternative<Kind>(one); });
    return all;
  }
  // The one that must have been said.
  template <class Kind>
  Kind one() {
    std::vector<Kind> all = said<Kind>();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? Kind{} : all.front();
  }

  engine::Time now_{seconds(100)};
  uint64_t requests_ = 0;
  std::vector<Action> actions_;
  std::unique_ptr<Table> table_ = std::make_unique<Table>(1, std::vector<AgentId>{}, now_, now_);
};

TEST_F(HoldsTable, several_share_and_one_is_alone) {
  want(kA, Hold::shared);
  want(kB, Hold::shared);
  EXPECT_EQ(said<Given>().size(), 2U);
  want(kC, Hold::exclusive);
  const std::vector<Recall> recalls = said<Recall>();
  ASSERT_EQ(recalls.size(), 2U);
  give_back(recalls[0], Hold::none);
  EXPECT_TRUE(said<Given>().empty());
  give_back(recalls[1], Hold::none);
  const Given given = one<Given>();
  EXPECT_EQ(given.agent, kC);
  EXPECT_EQ(given.hold, Hold::exclusive);
  EXPECT_GT(given.stamp, recalls[1].recall);
  EXPECT_EQ(table_->hold_of(kA, kFile), Hold::none);
}

TEST_F(HoldsTable, a_reader_leaves_the_writer_with_what_it_may_share) {
  want(kA, Hold::exclusive);
  want(kB, Hold::shared);
  const Recall recall = one<Recall>();
  EXPECT_EQ(recall.leave, Hold::shared);
  give_back(recall, Hold::shared);
  EXPECT_EQ(table_->hold_of(kA, kFile), Hold::shared);
  EXPECT_EQ(table_->grant_of(kA, kFile), recall.recall);
  EXPECT_EQ(table_->hold_of(kB, kFile), Hold::shared);
}

TEST_F(HoldsTable, who_asked_first_is_first) {
  want(kA, Hold::exclusive);
  want(kB, Hold::exclusive);
  want(kC, Hold::shared);
  said<Given>();
  give_back(one<Recall>(), Hold::none);
  EXPECT_EQ(one<Given>().agent, kB);
  give_back(one<Recall>(), Hold::shared);
  EXPECT_EQ(one<Given>().agent, kC);
}

TEST_F(HoldsTable, a_question_that_comes_again_has_the_same_answer) {
  const RequestId request = want(kA, Hold::shared);
  const Given first = one<Given>();
  EXPECT_TRUE(table_->want({kA, request, kFile, Hold::shared}, now_).ok());
  collect();
  EXPECT_EQ(one<Given>().stamp, first.stamp);
  // Also when it has been recalled meanwhile: the agent has to know what it gives back.
  want(kB, Hold::exclusive);
  EXPECT_TRUE(table_->want({kA, request, kFile, Hold::shared}, now_).ok());
  collect();
  EXPECT_EQ(one<Given>().stamp, first.stamp);
}

TEST_F(HoldsTable, an_answer_of_something_else_is_ignored) {
  want(kA, Hold::exclusive);
  want(kB, Hold::exclusive);
  Recall recall = one<Recall>();
  said<Given>();
  const Stamp right = std::exchange(recall.recall, Stamp(recall.recall.value + 1));
  give_back(recall, Hold::none);
  recall.recall = right;
  // More than may be left.
  give_back(recall, Hold::shared);
  EXPECT_TRUE(said<Given>().empty());
  give_back(recall, Hold::none);
  EXPECT_EQ(one<Given>().agent, kB);
}

TEST_F(HoldsTable, who_asks_for_nothing_hears_when_the_writer_has_settled) {
  want(kA, Hold::exclusive);
  said<Given>();
  want(kB, Hold::none);
  const Recall recall = one<Recall>();
  EXPECT_EQ(recall.leave, Hold::exclusive);
  want(kC, Hold::none);  // too late for that one
  give_back(recall, Hold::exclusive);
  EXPECT_EQ(one<Given>().agent, kB);
  give_back(one<Recall>(), Hold::exclusive);
  EXPECT_EQ(one<Given>().agent, kC);
  EXPECT_EQ(table_->hold_of(kA, kFile), Hold::exclusive);
}

TEST_F(HoldsTable, who_does_not_wait_is_answered_at_once) {
  want(kA, Hold::exclusive);
  said<Given>();
  want(kB, Hold::shared, kFile, false);
  EXPECT_EQ(one<Given>().hold, Hold::none);
  // Next time it gets one, as the other need not have it exclusive for ever.
  const Recall recall = one<Recall>();
  EXPECT_EQ(recall.leave, Hold::shared);
  give_back(recall, Hold::shared);
  want(kB, Hold::shared, kFile, false);
  EXPECT_EQ(one<Given>().hold, Hold::shared);
  want(kB, Hold::shared, kOther, false);
  EXPECT_EQ(one<Given>().hold, Hold::shared);
}

TEST_F(HoldsTable, who_has_it_exclusive_keeps_that_when_its_names_change) {
  want(kA, Hold::exclusive);
  said<Given>();
  barrier(1, kB, {{kFile, {""}}});
  const Recall told = one<Recall>();
  EXPECT_TRUE(told.keeps);
  EXPECT_EQ(told.names, std::vector<std::string>{""});
  give_back(told, Hold::exclusive);
  EXPECT_EQ(one<Ready>().request, RequestId(1));
  EXPECT_EQ(table_->hold_of(kA, kFile), Hold::exclusive);
  // Nobody has settled by that.
  over(1);
  want(kC, Hold::none);
  const Recall first = one<Recall>();
  EXPECT_TRUE(first.names.empty());
  barrier(2, kB, {{kFile, {""}}});
  const Recall second = one<Recall>();
  give_back(second, Hold::exclusive);
  EXPECT_TRUE(said<Given>().empty());
}

TEST_F(HoldsTable, a_directory_in_which_another_changes_much_is_given_back) {
  want(kA, Hold::shared);
  said<Given>();
  barrier(1, kB, {{kFile, {"one"}}});
  const Recall told = one<Recall>();
  EXPECT_TRUE(told.keeps);
  give_back(told, Hold::shared);
  said<Ready>();
  over(1);
  barrier(2, kB, {{kFile, {"two"}}});
  const Recall recall = one<Recall>();
  EXPECT_FALSE(recall.keeps);
  EXPECT_EQ(recall.leave, Hold::none);
  EXPECT_TRUE(table_->is_kept_elsewhere(kFile, kB));
  EXPECT_FALSE(table_->is_kept_elsewhere(kFile, kA));
  give_back(recall, Hold::none);
  EXPECT_EQ(one<Ready>().request, RequestId(2));
  EXPECT_FALSE(table_->is_kept_elsewhere(kFile, kB));
}

TEST_F(HoldsTable, a_barrier_has_all_its_inodes_for_itself) {
  want(kA, Hold::shared);
  want(kB, Hold::exclusive, kOther);
  want(kC, Hold::shared);
  said<Given>();
  barrier(1, kC, {{kOther, {}}, {kFile, {}}});
  // The maker keeps its own; the second part is asked for when the first is there.
  const Recall first = one<Recall>();
  EXPECT_EQ(first.agent, kA);
  give_back(first, Hold::none);
  EXPECT_TRUE(said<Ready>().empty());
  give_back(one<Recall>(), Hold::none);
  const Ready ready = one<Ready>();
  ASSERT_EQ(ready.stamps.size(), 2U);
  EXPECT_GT(ready.stamps[0], ready.stamps[1]);  // in the order of its parts
  EXPECT_EQ(table_->reading(kFile), Stamp{});
  want(kA, Hold::shared);
  EXPECT_TRUE(said<Given>().empty());
  over(1);
  EXPECT_EQ(one<Given>().agent, kA);
  EXPECT_NE(table_->reading(kFile), Stamp{});
}

TEST_F(HoldsTable, barriers_that_meet_wait_for_one_another_and_not_in_a_ring) {
  barrier(1, kA, {{kFile, {}}, {kOther, {}}});
  barrier(2, kB, {{kOther, {}}, {kFile, {}}});
  EXPECT_EQ(one<Ready>().request, RequestId(1));
  over(1);
  EXPECT_EQ(one<Ready>().request, RequestId(2));
  over(2);
}

TEST_F(HoldsTable, holders_of_a_directory_are_told_of_names_and_keep_it) {
  want(kA, Hold::shared);
  want(kB, Hold::shared);
  said<Given>();
  barrier(1, kA, {{kFile, {"new"}}});
  const Recall recall = one<Recall>();
  EXPECT_EQ(recall.agent, kB);
  EXPECT_EQ(recall.names, std::vector<std::string>{"new"});
  EXPECT_EQ(recall.leave, Hold::shared);
  // What is read now must not be kept: the name is about to change.
  EXPECT_EQ(table_->reading(kFile), Stamp{});
  EXPECT_TRUE(said<Ready>().empty());
  give_back(recall, Hold::shared);
  EXPECT_EQ(one<Ready>().request, RequestId(1));
  EXPECT_EQ(table_->hold_of(kB, kFile), Hold::shared);
  over(1);
}

TEST_F(HoldsTable, a_directory_of_many_holders_is_given_back) {
  for (uint32_t node = 10; node < 10 + limits::kToldMost + 1; ++node) {
    const AgentId agent{NodeId(node), 1};
    begin(agent);
    want(agent, Hold::shared);
  }
  barrier(1, kA, {{kFile, {"new"}}});
  for (const Recall& recall : said<Recall>()) {
    EXPECT_EQ(recall.leave, Hold::none);
    give_back(recall, Hold::none);
  }
  EXPECT_EQ(one<Ready>().request, RequestId(1));
  over(1);
}

TEST_F(HoldsTable, a_directory_that_another_has_just_changed_is_given_to_nobody) {
  barrier(1, kA, {{kFile, {"new"}}});
  over(1);
  want(kB, Hold::shared, kFile, false);
  EXPECT_EQ(one<Given>().hold, Hold::none);
  want(kA, Hold::shared, kFile, false);
  EXPECT_EQ(one<Given>().hold, Hold::shared);
  pass(limits::kCalmAfter);
  want(kB, Hold::shared, kFile, false);
  EXPECT_EQ(one<Given>().hold, Hold::shared);
}

TEST_F(HoldsTable, what_is_in_use_stays_so_until_it_is_said) {
  EXPECT_FALSE(table_->is_in_use(kFile));
  want(kA, Hold::shared);
  barrier(1, kB, {{kFile, {}}});
  give_back(one<Recall>(), Hold::none, true);
  over(1);
  EXPECT_TRUE(table_->is_in_use(kFile));
  table_->unused(kA, kFile);
  EXPECT_FALSE(table_->is_in_use(kFile));
  EXPECT_EQ(table_->holds(), 0U);
}

TEST_F(HoldsTable, a_lost_agent_is_waited_for_until_it_is_fenced) {
  want(kA, Hold::exclusive);
  want(kB, Hold::exclusive);
  said<Given>();
  for (int i = 0; i < 6; ++i) {
    pass(seconds(1));
    EXPECT_TRUE(table_->renew(kB, now_));
  }
  EXPECT_TRUE(said<End>().empty());
  pass(milliseconds(500));
  EXPECT_EQ(said<End>().size(), 2U);  // the third has renewed nothing either
  EXPECT_FALSE(table_->renew(kA, now_));
  EXPECT_TRUE(said<Given>().empty());
  table_->fenced(kA, now_);
  collect();
  EXPECT_EQ(one<Given>().agent, kB);
  EXPECT_EQ(one<Gone>().agent, kA);
}

TEST_F(HoldsTable, who_renews_and_does_not_answer_ends_and_its_lease_is_waited_for) {
  want(kA, Hold::exclusive);
  want(kB, Hold::exclusive);
  said<Given>();
  for (engine::Duration gone{}; gone < limits::kAnswerMost; gone += seconds(1)) {
    EXPECT_TRUE(said<End>().empty());
    for (const AgentId agent : {kA, kB, kC}) EXPECT_TRUE(table_->renew(agent, now_));
    pass(seconds(1));
  }
  EXPECT_EQ(one<End>().agent, kA);
  table_->fenced(kA, now_);
  collect();
  EXPECT_TRUE(said<Given>().empty());
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(table_->renew(kB, now_));
    pass(seconds(1));
  }
  EXPECT_EQ(one<Given>().agent, kB);
}

TEST_F(HoldsTable, a_session_that_has_dropped_all_is_waited_for_no_longer_than_its_fence) {
  want(kA, Hold::exclusive);
  want(kB, Hold::shared);
  said<Given>();
  begin({kA.node, 2});
  collect();
  EXPECT_EQ(one<End>().agent, kA);
  EXPECT_TRUE(said<Given>().empty());
  table_->fenced(kA, now_);
  collect();
  EXPECT_EQ(one<Given>().agent, kB);
}

TEST_F(HoldsTable, a_late_word_of_an_earlier_session_ends_nothing) {
  begin({kA.node, 2});
  want({kA.node, 2}, Hold::exclusive);
  said<End>();
  begin(kA);
  collect();
  EXPECT_TRUE(said<End>().empty());
  EXPECT_TRUE(table_->renew({kA.node, 2}, now_));
  EXPECT_EQ(table_->hold_of({kA.node, 2}, kFile), Hold::exclusive);
}

TEST_F(HoldsTable, another_life_gives_nothing_before_all_have_claimed) {
  table_ = std::make_unique<Table>(2, std::vector<AgentId>{kA, kB}, now_, now_ + seconds(6));
  begin(kC);
  want(kC, Hold::exclusive);
  const Result<Stamp> claimed = table_->claim(kA, kFile, Hold::exclusive, true);
  ASSERT_TRUE(claimed);
  table_->claimed(kA, now_);
  EXPECT_TRUE(table_->is_claiming());
  EXPECT_EQ(table_->claim(kB, kFile, Hold::shared, false).error(), Code::conflict);
  collect();
  EXPECT_EQ(one<End>().agent, kB);  // one of them lies
  EXPECT_TRUE(said<Recall>().empty());
  table_->fenced(kB, now_);
  pass(seconds(6));
  EXPECT_FALSE(table_->is_claiming());
  EXPECT_EQ(one<Recall>().grant, *claimed);
}

TEST_F(HoldsTable, those_of_an_earlier_life_that_do_not_claim_end) {
  table_ = std::make_unique<Table>(2, std::vector<AgentId>{kA}, now_, now_ + seconds(6));
  begin(kC);
  want(kC, Hold::exclusive);
  pass(seconds(6));
  EXPECT_EQ(one<End>().agent, kA);
  EXPECT_TRUE(said<Given>().empty());
  EXPECT_TRUE(table_->renew(kC, now_));
  table_->fenced(kA, now_);
  collect();
  EXPECT_EQ(one<Given>().agent, kC);
}

TEST_F(HoldsTable, claims_are_taken_for_a_lease_from_when_they_can_be_heard) {
  table_ = std::make_unique<Table>(2, std::vector<AgentId>{kA, kB}, now_, now_ + seconds(6));
  for (int i = 0; i < 20; ++i) {
    pass(seconds(1));
    table_->not_heard(now_);
  }
  EXPECT_TRUE(said<End>().empty());
  ASSERT_TRUE(table_->renew(kA, now_));
  ASSERT_TRUE(table_->claim(kA, kFile, Hold::exclusive, false));
  table_->claimed(kA, now_);
  EXPECT_TRUE(table_->is_claiming());
  pass(limits::kAgentLease);
  EXPECT_TRUE(said<End>().empty());
  EXPECT_TRUE(table_->renew(kA, now_));
  pass(limits::kLeaseGuard + limits::kTickInterval);
  EXPECT_EQ(one<End>().agent, kB);
  EXPECT_EQ(table_->claim(kB, kOther, Hold::shared, false).error(), Code::stale);
  EXPECT_FALSE(table_->renew(kB, now_));
}

TEST_F(HoldsTable, nobody_ends_for_what_could_not_be_heard) {
  want(kA, Hold::exclusive);
  want(kB, Hold::exclusive);
  for (engine::Duration gone{}; gone < 2 * limits::kAnswerMost; gone += seconds(1)) {
    pass(seconds(1));
    table_->not_heard(now_);
  }
  EXPECT_TRUE(said<End>().empty());
  for (const AgentId agent : {kA, kB}) EXPECT_TRUE(table_->renew(agent, now_));
  give_back(one<Recall>(), Hold::none);
  pass(limits::kAgentLease);
  for (const AgentId agent : {kA, kB}) EXPECT_TRUE(table_->renew(agent, now_));
  pass(limits::kLeaseGuard + limits::kTickInterval);
  EXPECT_EQ(one<End>().agent, kC);
  EXPECT_EQ(table_->hold_of(kB, kFile), Hold::exclusive);
}

TEST_F(HoldsTable, a_session_whose_lease_is_over_goes_on_until_it_is_ended) {
  want(kA, Hold::exclusive);
  now_ += limits::kAgentLease + limits::kLeaseGuard + seconds(1);
  for (const AgentId agent : {kA, kB}) EXPECT_TRUE(table_->renew(agent, now_));
  table_->tick(now_);
  collect();
  EXPECT_EQ(one<End>().agent, kC);
  EXPECT_FALSE(table_->renew(kC, now_));
  EXPECT_EQ(table_->hold_of(kA, kFile), Hold::exclusive);
}

TEST_F(HoldsTable, what_somebody_may_change_is_known_until_he_is_fenced) {
  EXPECT_TRUE(table_->is_good(kA));
  want(kA, Hold::exclusive);
  want(kB, Hold::shared, kOther);
  EXPECT_TRUE(table_->is_exclusive(kFile));
  EXPECT_FALSE(table_->is_exclusive(kOther));
  EXPECT_EQ(table_->exclusives_of(kA), std::vector<InodeId>{kFile});
  EXPECT_TRUE(table_->exclusives_of(kB).empty());
  table_->dropped(kA, now_);
  EXPECT_FALSE(table_->is_good(kA));
  EXPECT_TRUE(table_->is_exclusive(kFile));
  EXPECT_TRUE(table_->take_unused().empty());
  table_->fenced(kA, now_);
  EXPECT_FALSE(table_->is_exclusive(kFile));
  EXPECT_EQ(table_->take_unused(), std::vector<InodeId>{kFile});
  Table another(2, {kB}, now_, now_ + seconds(6));
  EXPECT_TRUE(another.is_exclusive(kFile));
}

TEST_F(HoldsTable, one_that_is_fenced_is_gone_when_the_next_of_its_node_begins) {
  want(kA, Hold::exclusive);
  table_->expel(kA, now_);
  table_->fenced(kA, now_);
  want(kB, Hold::exclusive);
  said<Given>();
  EXPECT_TRUE(said<Gone>().empty());
  begin({kA.node, 2});
  collect();
  EXPECT_EQ(one<Gone>().agent, kA);
  EXPECT_EQ(one<Given>().agent, kB);
}

TEST_F(HoldsTable, each_last_word_of_an_inode_is_heard_also_where_others_have_it) {
  want(kA, Hold::shared);
  want(kB, Hold::shared);
  table_->give_up(kB, kFile, table_->grant_of(kB, kFile), true, now_);
  EXPECT_TRUE(table_->take_unused().empty());
  EXPECT_TRUE(table_->is_in_use(kFile, kA));
  table_->unused(kB, kFile);
  // Whoever removed it keeps its own hold, and waits for that.
  EXPECT_EQ(table_->take_unused(), std::vector<InodeId>{kFile});
  EXPECT_FALSE(table_->is_in_use(kFile, kA));
  EXPECT_TRUE(table_->is_in_use(kFile));
}

}  // namespace
}  // namespace penstock::holds
