// Who may ask the controller what.
#include "keeper_thread.h"

#include <gtest/gtest.h>

namespace penstock::membership {
namespace {

using engine::kRoleAdmin;
using engine::kRoleAgent;
using engine::kRoleController;
using engine::kRoleMeta;
using engine::kRoleStorage;

constexpr NodeId kHome{1};
constexpr NodeId kStranger{UINT32_MAX};

class Rights : public testing::Test {
 protected:
  Rights() {
    for (uint32_t number = 1; number <= 3; ++number) {
      controller::Node node;
      node.id = NodeId(number);
      node.uuid.bytes[0] = static_cast<uint8_t>(number);
      state_.nodes.push_back(node);
      controller::Target target;
      target.id = TargetId(number);
      target.node = node.id;
      state_.targets.push_back(target);
    }
    state_.nodes[2].standing = controller::Standing::removed;
  }
  Code asked(const Request& request, NodeId from, uint8_t roles, bool proves = true) {
    KeeperJob job;
    job.request = request;
    job.from = {from, roles};
    const auto refused = why_not(job, state_, kHome, proves);
    return refused ? refused->code : Code::ok;
  }

  controller::State state_;
};

TEST_F(Rights, orders_come_from_the_controllers_node_or_from_one_with_the_role_for_them) {
  for (const Request& order :
       {Request(controller::Drain{NodeId(1)}), Request(controller::Remove{NodeId(1), true}),
        Request(controller::Forget{TargetId(1)}), Request(controller::Trust{TargetId(1)}),
        Request(controller::Move{}), Request(controller::DrainTarget{TargetId(1)})}) {
    EXPECT_EQ(asked(order, kHome, kRoleController), Code::ok) << order.index();
    EXPECT_EQ(asked(order, NodeId(2), kRoleStorage | kRoleAgent | kRoleMeta), Code::not_permitted)
        << order.index();
    EXPECT_EQ(asked(order, NodeId(2), kRoleStorage | kRoleAdmin), Code::ok) << order.index();
    EXPECT_EQ(asked(order, NodeId(3), kRoleStorage | kRoleAdmin), Code::not_permitted)
        << "it was removed";
    EXPECT_EQ(asked(order, kStranger, 0), Code::access_denied) << order.index();
  }
}

TEST_F(Rights, a_node_may_send_itself_away) {
  EXPECT_EQ(asked(controller::Drain{NodeId(2)}, NodeId(2), kRoleStorage), Code::ok);
  EXPECT_EQ(asked(controller::DrainTarget{TargetId(2)}, NodeId(2), kRoleStorage), Code::ok);
  EXPECT_EQ(asked(controller::Forget{TargetId(2)}, NodeId(2), kRoleStorage), Code::ok);
  EXPECT_EQ(asked(controller::Forget{TargetId(2), true}, NodeId(2), kRoleStorage), Code::ok);
  EXPECT_EQ(asked(controller::Forget{TargetId(1)}, NodeId(2), kRoleStorage), Code::not_permitted);
  EXPECT_EQ(asked(controller::Remove{NodeId(2)}, NodeId(2), kRoleStorage), Code::not_permitted);
}

TEST_F(Rights, tables_are_made_for_names_and_targets_are_of_storage) {
  EXPECT_EQ(asked(controller::TablePlan{}, NodeId(2), kRoleMeta | kRoleAgent), Code::ok);
  EXPECT_EQ(asked(controller::TablePlan{}, NodeId(2), kRoleStorage), Code::not_permitted);
  EXPECT_EQ(asked(controller::OpenTarget{}, NodeId(2), kRoleStorage), Code::ok);
  EXPECT_EQ(asked(controller::OpenTarget{}, NodeId(2), kRoleMeta | kRoleAgent),
            Code::not_permitted);
}

TEST_F(Rights, sessions_are_fenced_by_who_has_the_names_or_the_controller) {
  const Request fence = controller::Fence{NodeId(2), 5};
  EXPECT_EQ(asked(fence, kHome, kRoleController), Code::ok);
  EXPECT_EQ(asked(fence, NodeId(2), kRoleMeta | kRoleAgent), Code::ok);
  EXPECT_EQ(asked(fence, NodeId(2), kRoleStorage | kRoleAgent), Code::not_permitted)
      << "not even its own";
  EXPECT_EQ(asked(fence, NodeId(2), kRoleAdmin), Code::not_permitted) << "a person";
  EXPECT_EQ(asked(fence, NodeId(3), kRoleMeta), Code::not_permitted) << "it was removed";
  EXPECT_EQ(asked(fence, kStranger, 0), Code::access_denied);
}

TEST_F(Rights, all_nodes_may_look) {
  for (const Request& look :
       {Request(AskMap{}), Request(AskHealth{}), Request(AskNodes{}), Request(AskAuthorities{})}) {
    EXPECT_EQ(asked(look, NodeId(2), kRoleStorage), Code::ok) << look.index();
    EXPECT_EQ(asked(look, kStranger, 0), Code::access_denied) << look.index();
  }
}

TEST_F(Rights, who_is_believed_is_asked_by_members_where_nodes_prove_something) {
  EXPECT_EQ(asked(AskAuthorities{}, NodeId(3), kRoleStorage), Code::not_permitted)
      << "it was removed";
  EXPECT_EQ(asked(AskAuthorities{}, NodeId(2), kRoleStorage, false), Code::not_supported);
  EXPECT_EQ(asked(AskAuthorities{}, kHome, kRoleController, false), Code::not_supported);
}

TEST_F(Rights, tokens_are_the_business_of_the_controllers_node) {
  for (const Request& request : {Request(controller::MakeToken{}),
                                 Request(controller::RevokeToken{}), Request(AskTokens{})}) {
    EXPECT_EQ(asked(request, kHome, kRoleController), Code::ok) << request.index();
    EXPECT_EQ(asked(request, NodeId(2), engine::kEveryRole), Code::not_permitted)
        << request.index();
    EXPECT_EQ(asked(request, kStranger, 0), Code::access_denied) << request.index();
  }
}

TEST_F(Rights, a_key_that_a_node_had_once_is_worth_nothing) {
  state_.nodes[1].key = {{7}};
  KeeperJob job;
  job.request = AskHealth{};
  job.from = {NodeId(2), kRoleStorage, {std::byte{7}}};
  EXPECT_FALSE(why_not(job, state_, kHome, true));
  job.from.key = {std::byte{8}};
  EXPECT_TRUE(why_not(job, state_, kHome, true));
  job.request = AskCertificate{};
  EXPECT_TRUE(why_not(job, state_, kHome, true)) << "nor a way to a new certificate";
}

TEST_F(Rights, who_joins_has_proven_which_directory_is_his) {
  const controller::Join of_second{.cluster = {}, .node = {{2}}, .process = {}};
  EXPECT_EQ(asked(of_second, NodeId(2), kRoleStorage), Code::ok);
  EXPECT_EQ(asked(of_second, NodeId(1), engine::kEveryRole), Code::access_denied);
  EXPECT_EQ(asked(of_second, kStranger, 0), Code::access_denied);
  EXPECT_EQ(asked(of_second, kStranger, 0, false), Code::ok) << "nobody has to prove anything";
  EXPECT_EQ(asked(AskToEnroll{}, kStranger, 0), Code::ok) << "the token is looked at later";
  EXPECT_EQ(asked(AskToEnroll{}, kStranger, 0, false), Code::not_supported);
}

}  // namespace
}  // namespace penstock::membership
