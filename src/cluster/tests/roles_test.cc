#include "penstock/cluster/roles.h"

#include "addresses.h"

#include <gtest/gtest.h>

#include "penstock/cluster/listening.h"

namespace penstock::cluster {
namespace {

TEST(Roles, are_read_in_any_order_and_written_in_one) {
  const auto roles = parse_roles("agent,controller,meta");
  ASSERT_TRUE(roles);
  EXPECT_EQ(roles_text(*roles), "controller,meta,agent");
  EXPECT_TRUE(has_names(*roles) && runs_controller(*roles));
  EXPECT_FALSE(has_storage(*roles));
  EXPECT_EQ(*parse_roles(roles_text(kAllRoles)), kAllRoles);
}

TEST(Roles, of_a_client_of_files_need_no_names) {
  const auto client = parse_roles("agent");
  ASSERT_TRUE(client);
  EXPECT_TRUE(has_agent(*client) && !has_names(*client) && !has_storage(*client));
  EXPECT_EQ(*parse_roles("agent,storage"), kJoiningRoles);
}

TEST(Roles, that_no_process_can_play_are_refused) {
  for (const char* text : {"", ",", "storage,", "store", "meta", "meta,storage", "meta,meta,agent",
                           "controller,,storage", " storage"}) {
    const auto roles = parse_roles(text);
    ASSERT_FALSE(roles) << text;
    EXPECT_EQ(roles.error().status, Code::invalid_argument);
  }
}

TEST(Listening, takes_a_rail_and_a_numa_node) {
  const auto at = parse_listen("[::1]:9180,numa=3,rail=7");
  ASSERT_TRUE(at);
  const controller::CardAddress wanted{.host = "::1", .port = 9180, .rail = 7, .numa = 3};
  EXPECT_EQ(card_of(*at), wanted);
  // Loopback is no card.
  const controller::CardAddress plain{.host = "127.0.0.1", .port = 1};
  EXPECT_EQ(card_of(*parse_listen("127.0.0.1:1")), plain);
}

TEST(Listening, refuses_what_others_cannot_call) {
  for (const char* text :
       {"", "somewhere:1", "127.0.0.1", "127.0.0.1:0", "0.0.0.0:9180", "[::]:9180", "127.0.0.1:1,",
        "127.0.0.1:1,rail", "127.0.0.1:1,rail=", "127.0.0.1:1,rail=65536", "127.0.0.1:1,rail=x",
        "127.0.0.1:1,speed=3", "127.0.0.1:1rail=3"}) {
    EXPECT_FALSE(parse_listen(text)) << text;
  }
}

TEST(Addresses, come_with_those_on_an_own_rail_first) {
  Addresses addresses;
  addresses.set_rails({1});
  controller::Node node;
  node.id = NodeId(4);
  node.facts.cards = {{"127.0.0.1", 10, 0, 0},
                      {"127.0.0.1", 11, 1, 0},
                      {"no address", 12, 1, 0},
                      {"::1", 13, 2, 0},
                      {"::1", 14, 1, 0}};
  addresses.learn(node);
  std::vector<std::string> texts;
  for (const auto& address : addresses.addresses_of(node.id)) texts.push_back(address.text());
  const std::vector<std::string> wanted = {"127.0.0.1:11", "[::1]:14", "127.0.0.1:10", "[::1]:13"};
  EXPECT_EQ(texts, wanted);
  node.standing = controller::Standing::removed;
  addresses.learn(node);
  EXPECT_TRUE(addresses.addresses_of(node.id).empty());
}

}  // namespace
}  // namespace penstock::cluster
