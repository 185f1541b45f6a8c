#include "../records.h"

#include "../limits.h"

#include <gtest/gtest.h>

#include "penstock/kv.h"

namespace penstock::holds_net {
namespace {

constexpr NodeId kNode{0x01020304};

class HoldsRecords : public testing::Test {
 protected:
  template <class Body>
  auto in_transaction(Body body) {
    decltype(body(std::declval<engine::KvTransaction&>())) result = Code::corrupt;
    EXPECT_TRUE(kv_->run(engine::KvMode::write_durable,
                         [&](engine::KvTransaction& transaction) -> Status {
                           result = body(transaction);
                           return Code::ok;
                         })
                    .ok());
    return result;
  }
  Begun begin(uint64_t session) {
    return *in_transaction([&](auto& at) { return holds_net::begin(at, {kNode, session}); });
  }
  NodeRecord record() {
    return *in_transaction([&](auto& at) { return get(at, kNode); });
  }
  Result<Records> new_life() {
    return in_transaction([](auto& at) { return begin_life(at); });
  }

  std::unique_ptr<engine::Kv> kv_ = kv::make_memory_kv();
};

TEST_F(HoldsRecords, are_read_as_they_were_written_and_refused_where_they_were_changed) {
  const NodeRecord record{700, {{5, true}, {300, false}, {700, false}}};
  const std::string bytes = encode(record);
  EXPECT_EQ(*decode_node(bytes), record);
  EXPECT_EQ(*decode_life(encode_life(65535)), 65535);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] ^= 4;
    EXPECT_EQ(decode_node(changed).error(), Code::corrupt);
    EXPECT_EQ(decode_node(bytes.substr(0, at)).error(), Code::corrupt);
  }
  // In the order of their numbers, and none above the latest.
  EXPECT_EQ(decode_node(encode({7, {{7, false}, {6, false}}})).error(), Code::corrupt);
  EXPECT_EQ(decode_node(encode({7, {{8, false}}})).error(), Code::corrupt);
  EXPECT_EQ(decode_life(bytes).error(), Code::corrupt);
}

TEST_F(HoldsRecords, have_keys_of_nodes_in_their_order) {
  EXPECT_EQ(key_of(kNode), std::string("HN\1\2\3\4"));
  EXPECT_EQ(node_of(key_of(kNode)), kNode);
  EXPECT_FALSE(node_of("HN123").has_value());
  EXPECT_FALSE(node_of(key_of_life()).has_value());
}

TEST_F(HoldsRecords, no_number_of_a_session_is_used_twice) {
  EXPECT_EQ(begin(1).status, Code::ok);
  EXPECT_EQ(begin(1).status, Code::stale);
  EXPECT_EQ(begin(1).next, 2U);
  EXPECT_EQ(begin(9).status, Code::ok);
  EXPECT_EQ(begin(4).next, 10U);
  EXPECT_EQ(record(), (NodeRecord{9, {{1, false}, {9, false}}}));
  EXPECT_TRUE(in_transaction([](auto& at) { return end(at, {kNode, 1}); }).ok());
  EXPECT_EQ(record(), (NodeRecord{9, {{1, true}, {9, false}}}));
  for (const uint64_t session : {1, 9, 9}) {
    EXPECT_TRUE(in_transaction([&](auto& at) { return forget(at, {kNode, session}); }).ok());
  }
  EXPECT_EQ(record(), (NodeRecord{9, {}}));
  EXPECT_EQ(begin(9).next, 10U);
}

TEST_F(HoldsRecords, a_node_whose_sessions_do_not_end_waits) {
  for (uint64_t session = 1; session <= limits::kSessionsOfNodeMax; ++session) {
    EXPECT_EQ(begin(session).status, Code::ok);
  }
  EXPECT_EQ(begin(100).status, Code::busy);
  EXPECT_TRUE(in_transaction([](auto& at) { return forget(at, {kNode, 3}); }).ok());
  EXPECT_EQ(begin(100).status, Code::ok);
}

TEST_F(HoldsRecords, lives_are_counted_until_there_can_be_no_more) {
  EXPECT_EQ(begin(1).status, Code::ok);
  EXPECT_EQ(new_life()->life, 1);
  const Result<Records> records = new_life();
  EXPECT_EQ(records->life, 2);
  ASSERT_EQ(records->nodes.size(), 1U);
  EXPECT_EQ(records->nodes[0], (std::pair{kNode, NodeRecord{1, {{1, false}}}}));
  ASSERT_TRUE(kv_->run(engine::KvMode::write,
                       [](engine::KvTransaction& transaction) -> Status {
                         transaction.put(key_of_life(), encode_life(65534));
                         return Code::ok;
                       })
                  .ok());
  EXPECT_EQ(new_life()->life, 65535);
  EXPECT_EQ(new_life().error(), Code::wrong_version);
}

TEST_F(HoldsRecords, one_that_is_damaged_keeps_a_life_from_beginning) {
  ASSERT_TRUE(kv_->run(engine::KvMode::write,
                       [](engine::KvTransaction& transaction) -> Status {
                         transaction.put(key_of(kNode), "something");
                         return Code::ok;
                       })
                  .ok());
  EXPECT_EQ(new_life().error(), Code::corrupt);
}

}  // namespace
}  // namespace penstock::holds_net
