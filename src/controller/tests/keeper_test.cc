// Keepers over a Kv in memory, with a clock that a test moves.
#include "rig.h"

#include <gtest/gtest.h>

#include "penstock/kv.h"

namespace penstock::controller {
namespace {

class TestClock final : public engine::Clock {
 public:
  engine::Time now() const override { return time; }
  engine::Time lease_now() const override { return time + suspended; }
  engine::WallTime wall() const override { return {}; }

  engine::Time time{seconds(1)};
  engine::Duration suspended{};
};

class KeeperTest : public testing::Test {
 protected:
  Keeper keeper(uint32_t process) {
    return Keeper({.kv = kv_.get(),
                   .clock = &clock_,
                   .process = uuid_of(process),
                   .cluster = uuid_of(99),
                   .timing = {}});
  }
  Join join(uint32_t node) {
    Join join{uuid_of(99), uuid_of(node), uuid_of(1000 + node), {}, false};
    join.facts.name = "n" + std::to_string(node);
    return join;
  }
  std::string get(RecordKind kind, uint32_t id = 0) {
    std::string bytes;
    const Status status =
        kv_->run(engine::KvMode::read, [&](engine::KvTransaction& transaction) -> Status {
          TRY_ASSIGN(const std::optional<std::string> found, transaction.get(key_of(kind, id)));
          bytes = found.value_or("");
          return Code::ok;
        });
    EXPECT_TRUE(status.ok());
    return bytes;
  }
  void put(const std::string& key, const std::string& bytes) {
    const auto body = [&](engine::KvTransaction& transaction) -> Status {
      transaction.put(key, bytes);
      return Code::ok;
    };
    EXPECT_TRUE(kv_->run(engine::KvMode::write, body).ok());
  }
  TestClock clock_;
  std::unique_ptr<engine::Kv> kv_ = kv::make_memory_kv();
};

TEST_F(KeeperTest, grants_nothing_after_its_machine_was_suspended) {
  Keeper one = keeper(1);
  ASSERT_TRUE(one.renew().has_value());
  EXPECT_TRUE(one.may_grant());
  clock_.suspended = seconds(60);
  EXPECT_FALSE(one.may_grant()) << "another may lead by now";
  ASSERT_TRUE(one.renew().has_value());
  EXPECT_TRUE(one.may_grant());
}

TEST_F(KeeperTest, the_first_makes_a_cluster_and_commits_steps_before_it_returns) {
  Keeper first = keeper(1);
  ASSERT_TRUE(first.renew().has_value());
  ASSERT_TRUE(first.leads());
  const Result<Actions> actions = first.handle(join(5));
  ASSERT_TRUE(actions.has_value());
  ASSERT_EQ(actions->admissions.size(), 1U);
  EXPECT_EQ(decode_node(NodeId(1), get(RecordKind::node, 1))->uuid, uuid_of(5));
  EXPECT_EQ(decode_root(get(RecordKind::root))->nodes, 1U);
}

TEST_F(KeeperTest, a_successor_waits_and_takes_over_what_was_committed) {
  Keeper first = keeper(1), second = keeper(2);
  ASSERT_TRUE(first.renew().has_value());
  ASSERT_TRUE(first.handle(join(5)).has_value());
  ASSERT_TRUE(second.renew().has_value());
  clock_.time += limits::kControllerLease;
  ASSERT_TRUE(second.renew().has_value());
  EXPECT_FALSE(second.leads());
  EXPECT_FALSE(first.may_grant());
  clock_.time += limits::kControllerLease / limits::kLeaseGuardPart;
  ASSERT_TRUE(second.renew().has_value());
  ASSERT_TRUE(second.leads());
  EXPECT_TRUE(second.may_grant());
  EXPECT_EQ(second.state().nodes.size(), 1U);
  // The other one wakes up.
  EXPECT_EQ(first.handle(join(6)).error(), Code::stale);
  EXPECT_FALSE(first.leads());
  ASSERT_TRUE(first.renew().has_value());
  EXPECT_FALSE(first.leads());
  EXPECT_EQ(decode_root(get(RecordKind::root))->nodes, 1U);
}

TEST_F(KeeperTest, a_fence_is_committed_and_known_to_the_next) {
  Keeper first = keeper(1), second = keeper(2);
  ASSERT_TRUE(first.renew().has_value());
  ASSERT_TRUE(first.handle(join(5)).has_value());
  ASSERT_TRUE(first.handle(Fence{NodeId(1), 7}).has_value());
  EXPECT_EQ(decode_fenced(NodeId(1), get(RecordKind::fence, 1))->lowest, 7U);
  ASSERT_TRUE(first.close().ok());
  ASSERT_TRUE(second.renew().has_value());
  ASSERT_TRUE(second.leads());
  EXPECT_EQ(second.state().fences.at(NodeId(1)).lowest, 7U);
  EXPECT_EQ(second.state().fences.at(NodeId(1)).changed, second.state().version);
}

TEST_F(KeeperTest, a_lease_that_is_renewed_is_not_taken) {
  Keeper first = keeper(1), second = keeper(2);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(first.renew().has_value());
    ASSERT_TRUE(second.renew().has_value());
    clock_.time += limits::kRenewInterval;
  }
  EXPECT_TRUE(first.may_grant());
  EXPECT_FALSE(second.leads());
}

TEST_F(KeeperTest, one_that_is_alone_need_not_wait_for_the_lease_of_the_last) {
  Keeper first = keeper(1);
  ASSERT_TRUE(first.renew().has_value());
  KeeperConfig config{.kv = kv_.get(),
                      .clock = &clock_,
                      .process = uuid_of(2),
                      .cluster = uuid_of(99),
                      .timing = {}};
  config.alone = true;
  Keeper second(config);
  ASSERT_TRUE(second.renew().has_value());
  EXPECT_TRUE(second.leads());
  EXPECT_FALSE(first.handle(join(5)).has_value()) << "its epoch is over";
}

TEST_F(KeeperTest, one_that_ends_in_order_leaves_the_lease_to_the_next) {
  Keeper first = keeper(1), second = keeper(2);
  ASSERT_TRUE(first.renew().has_value());
  ASSERT_TRUE(first.close().ok());
  EXPECT_FALSE(first.may_grant());
  ASSERT_TRUE(second.renew().has_value());
  EXPECT_TRUE(second.leads());
}

TEST_F(KeeperTest, one_that_leads_again_knows_what_others_did_meanwhile) {
  Keeper first = keeper(1), second = keeper(2);
  ASSERT_TRUE(first.renew().has_value());
  ASSERT_TRUE(first.handle(join(5)).has_value());
  ASSERT_TRUE(second.renew().has_value());
  clock_.time += 2 * limits::kControllerLease;
  ASSERT_TRUE(second.renew().has_value());
  ASSERT_TRUE(second.handle(join(6)).has_value());
  ASSERT_TRUE(second.close().ok());
  ASSERT_TRUE(first.renew().has_value());
  ASSERT_TRUE(first.leads());
  EXPECT_EQ(first.state().nodes.size(), 2U);
}

TEST_F(KeeperTest, heartbeats_without_changes_are_answered_until_the_lease_ends) {
  Keeper first = keeper(1);
  ASSERT_TRUE(first.renew().has_value());
  ASSERT_TRUE(first.handle(join(5)).has_value());
  Heartbeat heartbeat;
  heartbeat.from = {NodeId(1), NodeIncarnation(1), 1};
  heartbeat.applied = first.state().version;
  const std::string root = get(RecordKind::root);
  EXPECT_EQ(first.handle(heartbeat)->grants.size(), 1U);
  EXPECT_EQ(get(RecordKind::root), root);
  clock_.time += limits::kControllerLease;
  ++heartbeat.from.sequence;
  EXPECT_TRUE(first.handle(heartbeat)->grants.empty());
}

TEST_F(KeeperTest, damaged_or_missing_records_are_named_and_nothing_is_led) {
  Keeper first = keeper(1);
  ASSERT_TRUE(first.renew().has_value());
  ASSERT_TRUE(first.handle(join(5)).has_value());
  std::string bytes = get(RecordKind::node, 1);
  const std::string good = bytes;
  bytes[7] ^= 1;
  put(key_of(RecordKind::node, 1), bytes);
  Keeper second = keeper(2);
  ASSERT_TRUE(second.renew().has_value());
  clock_.time += 2 * limits::kControllerLease;
  const Outcome<void> damaged = second.renew();
  ASSERT_FALSE(damaged.has_value());
  EXPECT_EQ(damaged.error().status, Code::corrupt);
  EXPECT_FALSE(second.leads());
  put(key_of(RecordKind::node, 1), good);
  ASSERT_TRUE(second.renew().has_value());
  EXPECT_TRUE(second.leads());
}

}  // namespace
}  // namespace penstock::controller
