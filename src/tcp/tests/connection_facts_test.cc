// What a node knows of a connection that it made.
#include "tests/node.h"

#include <gtest/gtest.h>

#include "penstock/testing_wires.h"

namespace penstock::tcp {
namespace {

class TcpConnectionFacts : public testing::TestWithParam<bool> {
 protected:
  NetworkConfig config(NodeId node) {
    NetworkConfig config = config_of(node, table_);
    if (GetParam()) config.credentials = test::credentials_of(node);
    return config;
  }
  Table table_;
  TestService service_;
};

TEST_P(TcpConnectionFacts, are_known_while_there_is_a_connection) {
  Node far(config(kFar));
  far.net().serve(kService, service_);
  table_.nodes[kFar] = {far.listen()};
  Node near(config(kNear));
  EXPECT_FALSE(near.net().connection(kService)) << "before the first call";
  TestCall call(kEcho);
  near.net().call(call);
  EXPECT_FALSE(near.net().connection(kService)) << "before it has welcomed this node";
  run_until({&near.loop(), &far.loop()}, [&] { return call.done(); });
  ASSERT_EQ(call.status, Code::ok);
  const auto facts = near.net().connection(kService);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->sealed, GetParam());
  EXPECT_EQ(facts->remote.text(), table_.nodes[kFar].front().text());
  EXPECT_TRUE(facts->local.text().starts_with("127.0.0.1:")) << facts->local.text();
  EXPECT_GE(facts->path_mtu, 1280U);
  EXPECT_GT(facts->segment_bytes, 0U);
  EXPECT_LT(facts->segment_bytes, facts->path_mtu);
  EXPECT_GT(facts->segments, 0U);
  EXPECT_FALSE(facts->congestion.empty());
  EXPECT_FALSE(near.net().connection({kFar, 8})) << "another service";
  near.net().close();
  EXPECT_FALSE(near.net().connection(kService)) << "after its end";
  far.net().withdraw(kService);
}

INSTANTIATE_TEST_SUITE_P(PlainAndSealed, TcpConnectionFacts, testing::Bool());

}  // namespace
}  // namespace penstock::tcp
