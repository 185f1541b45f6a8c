#include "rig.h"

#include <gtest/gtest.h>

namespace penstock::controller {
namespace {

constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;
constexpr TokenHash kHash{{1}};
constexpr KeyPrint kKey{{11}};
constexpr KeyPrint kOtherKey{{12}};

class Tokens : public testing::Test {
 protected:
  TokenId make(MakeToken make) {
    if (make.hash == TokenHash()) make.hash = kHash;
    if (make.roles == 0) make.roles = kRoleStorage;
    if (make.ends == engine::WallTime{}) make.ends = {kHour};
    const Actions actions = rig_.say(make);
    return actions.made_tokens.empty() ? TokenId() : actions.made_tokens.front().token;
  }
  Actions enroll(uint32_t node, const KeyPrint& key, uint8_t roles = kRoleStorage, int64_t at = 0) {
    Enroll enroll;
    enroll.join = {rig_.state.cluster, uuid_of(node), uuid_of(3000 + node), {}, true};
    enroll.join.facts.name = "n";
    enroll.join.facts.roles = roles;
    enroll.token = kHash;
    enroll.key = key;
    enroll.at = {at};
    return rig_.say(enroll);
  }
  std::string why(const Actions& actions) {
    return actions.refusals.empty() ? "" : actions.refusals.front().reason;
  }

  Rig rig_{0};
};

TEST_F(Tokens, let_a_node_in_once_with_its_key) {
  const TokenId id = make({});
  ASSERT_NE(id, TokenId());
  const Actions let_in = enroll(1, kKey);
  ASSERT_EQ(let_in.admissions.size(), 1U) << why(let_in);
  EXPECT_EQ(let_in.changes.keys, std::vector{NodeId(1)});
  EXPECT_EQ(let_in.changes.tokens, std::vector{id});
  EXPECT_EQ(rig_.state.at(NodeId(1)).key, kKey);
  // The same node that did not hear the answer.
  EXPECT_EQ(enroll(1, kKey).admissions.size(), 1U);
  const Actions another = enroll(2, kOtherKey);
  EXPECT_TRUE(another.admissions.empty());
  EXPECT_NE(why(another).find("used already"), std::string::npos) << why(another);
  EXPECT_EQ(rig_.state.nodes.size(), 1U);
}

TEST_F(Tokens, restrict_whom_they_let_in_and_free_nobody) {
  const rights::Restriction reads{.read_only = true};
  make({.roles = kRoleAgent, .restriction = reads});
  enroll(1, kKey, kRoleAgent);
  ASSERT_NE(restriction_of(rig_.state, NodeId(1)), nullptr);
  EXPECT_EQ(*restriction_of(rig_.state, NodeId(1)), reads);
  make({.hash = TokenHash{{2}}, .roles = kRoleAgent, .node = NodeId(1)});
  Enroll again;
  again.join = {rig_.state.cluster, uuid_of(1), uuid_of(3001), {}, true};
  again.join.facts = rig_.state.at(NodeId(1)).facts;
  again.token = TokenHash{{2}};
  again.key = kOtherKey;
  EXPECT_EQ(rig_.say(again).admissions.size(), 1U);
  EXPECT_NE(restriction_of(rig_.state, NodeId(1)), nullptr) << "another token frees nobody";
  const Actions admin = rig_.say(MakeToken{
      .hash = TokenHash{{3}}, .roles = kRoleAdmin, .ends = {kHour}, .restriction = reads});
  EXPECT_NE(why(admin).find("free itself"), std::string::npos) << why(admin);
}

TEST_F(Tokens, let_in_as_many_as_they_say) {
  make({.uses = 2});
  EXPECT_EQ(enroll(1, kKey).admissions.size(), 1U);
  EXPECT_EQ(enroll(2, kOtherKey).admissions.size(), 1U);
  EXPECT_TRUE(enroll(3, KeyPrint{{13}}).admissions.empty());
}

TEST_F(Tokens, that_have_ended_or_are_unknown_let_nobody_in) {
  EXPECT_NE(why(enroll(1, kKey)).find("does not know"), std::string::npos);
  make({});
  const std::string ended = why(enroll(1, kKey, kRoleStorage, kHour));
  EXPECT_NE(ended.find("1970-01-01 01:00:00 UTC, and here it is"), std::string::npos) << ended;
  EXPECT_EQ(enroll(1, kKey, kRoleStorage, kHour - 1).admissions.size(), 1U);
}

TEST_F(Tokens, are_for_their_roles) {
  make({.roles = kRoleStorage | kRoleAdmin});
  EXPECT_NE(why(enroll(1, kKey, kRoleMeta | kRoleAgent)).find("meta,agent"), std::string::npos);
  EXPECT_EQ(enroll(1, kKey, kRoleStorage).admissions.size(), 1U);
  // And a node that has proven its roles gets no others by a join.
  Join join{rig_.state.cluster, uuid_of(1), uuid_of(3001), {}, true};
  join.facts.name = "n";
  join.facts.roles = kRoleStorage | kRoleAdmin;
  EXPECT_NE(why(rig_.say(join)).find("has the roles storage"), std::string::npos);
  join.facts.roles = kRoleStorage;
  EXPECT_EQ(rig_.say(join).admissions.size(), 1U);
}

TEST_F(Tokens, a_node_is_known_by_its_key) {
  make({.uses = 3});
  ASSERT_EQ(enroll(1, kKey).admissions.size(), 1U);
  const std::string stolen = why(enroll(1, kOtherKey));
  EXPECT_NE(stolen.find("--node 1"), std::string::npos) << stolen;
  ASSERT_EQ(rig_.state.at(NodeId(1)).key, kKey);
  rig_.say(RevokeToken{TokenId(1)});
  make({.node = NodeId(1)});
  EXPECT_TRUE(enroll(2, kOtherKey).admissions.empty()) << "that is not node 1";
  EXPECT_EQ(enroll(1, kOtherKey).admissions.size(), 1U);
  EXPECT_EQ(rig_.state.at(NodeId(1)).key, kOtherKey);
}

TEST_F(Tokens, what_is_refused_uses_nothing_up) {
  const TokenId id = make({});
  Enroll foreign;
  foreign.join = {uuid_of(99), uuid_of(1), uuid_of(3001), {}, true};
  foreign.join.facts.roles = kRoleStorage;
  foreign.token = kHash;
  foreign.key = kKey;
  EXPECT_NE(why(rig_.say(foreign)).find("another cluster"), std::string::npos);
  EXPECT_TRUE(rig_.state.tokens.at(id).used_by.empty());
  EXPECT_EQ(enroll(1, kKey).admissions.size(), 1U);
}

TEST_F(Tokens, that_make_no_sense_are_not_made) {
  EXPECT_EQ(make({.roles = kRoleController}), TokenId());
  EXPECT_EQ(make({.roles = 128}), TokenId());
  EXPECT_EQ(make({.node = NodeId(5)}), TokenId());
  EXPECT_EQ(make({.uses = 0}), TokenId());
  EXPECT_EQ(make({.uses = limits::kTokenUsesMax + 1}), TokenId());
  EXPECT_EQ(make({.made = {kHour}, .ends = {kHour}}), TokenId());
  EXPECT_TRUE(rig_.state.tokens.empty());
}

TEST_F(Tokens, go_a_day_after_their_end_or_when_they_are_revoked) {
  const TokenId first = make({});
  make({.hash = {{2}}, .made = {kHour}, .ends = {26 * kHour}});
  EXPECT_EQ(rig_.state.tokens.size(), 2U);
  const Actions later =
      rig_.say(MakeToken{{{3}}, kRoleStorage, NodeId(), 1, {25 * kHour}, {26 * kHour}});
  EXPECT_FALSE(rig_.state.tokens.contains(first));
  EXPECT_EQ(later.changes.tokens.size(), 2U);
  EXPECT_EQ(rig_.say(RevokeToken{TokenId(2)}).changes.tokens, std::vector{TokenId(2)});
  EXPECT_NE(why(rig_.say(RevokeToken{TokenId(2)})).find("no token 2"), std::string::npos);
}

TEST_F(Tokens, names_that_would_write_lines_into_logs_are_refused) {
  Join join{rig_.state.cluster, uuid_of(1), uuid_of(3001), {}, true};
  join.facts.name = "n\n2026-01-01 error: all is lost";
  EXPECT_TRUE(rig_.say(join).admissions.empty());
}

}  // namespace
}  // namespace penstock::controller
