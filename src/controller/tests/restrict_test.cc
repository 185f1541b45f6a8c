// What nodes are limited to, and keys that sign.
#include "rig.h"

#include <gtest/gtest.h>

namespace penstock::controller {
namespace {

const rights::Restriction kReads{.read_only = true};
const rights::Restriction kUsers{
    .uids = {{1000, 1999}}, .squash = rights::User{65534, 65534}, .subtree = "/data"};

std::string why(const Actions& actions) {
  return actions.refusals.empty() ? "" : actions.refusals.front().reason;
}

TEST(Restrict, is_kept_published_and_taken_back) {
  Rig rig(3);
  const MapVersion before = rig.state.version;
  const Actions done = rig.say(Restrict{NodeId(2), kUsers});
  EXPECT_EQ(why(done), "");
  EXPECT_EQ(done.changes.restrictions, std::vector{NodeId(2)});
  EXPECT_TRUE(done.published);
  EXPECT_EQ(*restriction_of(rig.state, NodeId(2)), kUsers);
  EXPECT_EQ(restriction_of(rig.state, NodeId(1)), nullptr);
  EXPECT_EQ(changed_since(rig.state, before).restrictions, std::vector{NodeId(2)});
  EXPECT_TRUE(rig.say(Restrict{NodeId(2), kUsers}).changes.empty());
  const MapVersion restricted = rig.state.version;
  rig.say(Restrict{NodeId(2), {}});
  EXPECT_EQ(restriction_of(rig.state, NodeId(2)), nullptr);
  EXPECT_GT(rig.state.restrictions.at(NodeId(2)).changed, restricted)
      << "what was judged before counts no more";
  EXPECT_TRUE(rig.say(Restrict{NodeId(3), {}}).changes.empty()) << "it never was";
}

TEST(Restrict, is_refused_for_what_cannot_be) {
  Rig rig(3);
  EXPECT_NE(why(rig.say(Restrict{NodeId(7), kReads})).find("no such node"), std::string::npos);
  EXPECT_NE(why(rig.say(Restrict{NodeId(2), {.subtree = "data"}})).find("cannot be"),
            std::string::npos);
  for (const uint8_t role : {kRoleAdmin, kRoleMeta, kRoleController}) {
    rig.state.at(NodeId(3)).facts.roles = kRoleAgent | role;
    EXPECT_NE(why(rig.say(Restrict{NodeId(3), kReads})).find("free itself"), std::string::npos);
    EXPECT_EQ(why(rig.say(Restrict{NodeId(3), {}})), "");
  }
  EXPECT_TRUE(rig.state.restrictions.empty());
}

TEST(Restrict, records_come_back) {
  for (const rights::Restriction& what : {kReads, kUsers, rights::Restriction{}}) {
    const Restricted record{NodeId(2), what, MapVersion(9)};
    const std::string bytes = encode(record);
    EXPECT_EQ(*decode_restricted(NodeId(2), bytes), record);
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      EXPECT_FALSE(decode_restricted(NodeId(2), bytes.substr(0, cut))) << cut;
    }
  }
  Token token{TokenId(1), {}, kRoleAgent, {}, 1, {1}, {2}, {}, {}};
  EXPECT_EQ(*decode_token(TokenId(1), encode(token)), token);
  token.restriction = kUsers;
  EXPECT_EQ(*decode_token(TokenId(1), encode(token)), token);
  const SigningKey key{SigningKeyId(3), {{7}}, MapVersion(9)};
  EXPECT_EQ(*decode_signing_key(SigningKeyId(3), encode(key)), key);
}

TEST(SigningKeys, are_numbered_once_and_the_newest_count) {
  Rig rig(1);
  const auto publish = [&](uint8_t first) {
    return rig.say(PublishKey{PublicKey{{first, 1}}}).published_keys.at(0).key.value;
  };
  EXPECT_EQ(publish(1), 1U);
  EXPECT_EQ(publish(1), 1U);
  for (uint8_t i = 2; i <= limits::kSigningKeysMax; ++i) EXPECT_EQ(publish(i), i);
  EXPECT_TRUE(rig.state.signing_keys.contains(SigningKeyId(1)));
  const Actions next = rig.say(PublishKey{PublicKey{{100}}});
  EXPECT_EQ(next.changes.signing_keys, (std::vector{SigningKeyId(1), SigningKeyId(17)}));
  EXPECT_FALSE(rig.state.signing_keys.contains(SigningKeyId(1)));
  EXPECT_EQ(rig.state.signing_keys.at(SigningKeyId(17)).changed, rig.state.version);
  EXPECT_NE(why(rig.say(PublishKey{})), "");
}

}  // namespace
}  // namespace penstock::controller
