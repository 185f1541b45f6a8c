#include "node/node_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

using testing::HasSubstr;
using testing::Not;

agent::AgentStatus node_with_two_shards() {
  agent::AgentStatus status;
  status.directory = "/srv/x";
  status.shards.resize(2);
  status.shards[1].index = 1;
  return status;
}

TEST(NodeMetrics, a_node_that_is_well_has_no_ailments) {
  EXPECT_EQ(ailments_of(node_with_two_shards()), "");
  EXPECT_THAT(metrics_of(node_with_two_shards()), HasSubstr("\npenstock_healthy 1\n"));
}

TEST(NodeMetrics, a_failed_or_full_target_and_a_stopped_database_are_told_by_name) {
  agent::AgentStatus status = node_with_two_shards();
  status.shards[1].failed = true;
  EXPECT_THAT(ailments_of(status),
              HasSubstr("shard 1: read-only since an error (see /srv/x/agent.log"));
  EXPECT_THAT(metrics_of(status), HasSubstr("\npenstock_healthy 0\n"));
  EXPECT_THAT(metrics_of(status), HasSubstr("\npenstock_shard_failed{shard=\"1\"} 1\n"));
  status = node_with_two_shards();
  status.shards[0].full = true;
  EXPECT_THAT(ailments_of(status), HasSubstr("shard 0: the disk is full"));
  EXPECT_THAT(ailments_of(status), Not(HasSubstr("shard 1")));
  status = node_with_two_shards();
  status.databases_stopped = 3;
  EXPECT_THAT(ailments_of(status), HasSubstr("want of space: 3"));
}

TEST(NodeMetrics, counters_of_many_kinds_are_families_with_a_label) {
  metrics::Counter lookups("meta.calls.lookup"), creates("meta.calls.create");
  metrics::Counter time("meta.nanoseconds.lookup"), retries("kv.retries.40001");
  metrics::Counter waits("holds.waited.nanoseconds"), held("locks.held");
  lookups.add(3);
  creates.add(2);
  time.add(1'500'000'000);
  retries.add(7);
  waits.add(250'000'000);
  held.set(4);
  const std::string text = metrics_of(node_with_two_shards());
  EXPECT_THAT(text, HasSubstr("# TYPE penstock_meta_calls_total counter\n"
                              "penstock_meta_calls_total{call=\"create\"} 2\n"
                              "penstock_meta_calls_total{call=\"lookup\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("penstock_meta_call_seconds_total{call=\"lookup\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("penstock_postgresql_retries_total{sqlstate=\"40001\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("\npenstock_holds_waited_seconds_total 0.25\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE penstock_locks_held gauge\npenstock_locks_held 4\n"));
  EXPECT_THAT(text, Not(HasSubstr("penstock_meta_call_errors_total"))) << "nothing has failed";
}

TEST(NodeMetrics, classes_of_one_user_that_look_alike_are_one_series) {
  agent::AgentStatus status = node_with_two_shards();
  status.cache.resize(2);
  for (agent::CacheStatus& one : status.cache) {
    one.uid = 7;
    one.groups = 2;
    one.hits = 5;
  }
  EXPECT_THAT(metrics_of(status),
              HasSubstr("penstock_cache_hits_total{uid=\"7\",gid=\"0\",groups=\"2\"} 10\n"));
}

TEST(NodeMetrics, a_node_of_a_cluster_tells_of_its_lease_and_its_peers) {
  agent::AgentStatus status = node_with_two_shards();
  status.cluster.emplace();
  status.cluster->node = NodeId(2);
  status.cluster->targets.push_back(
      {.id = TargetId(5), .directory = "", .trouble = "", .pending = 3});
  // One of two shards has lost its connection.
  status.cluster->peers.resize(2);
  for (tcp::PeerFacts& peer : status.cluster->peers) peer.address = {NodeId(1), 9};
  status.cluster->peers[0].connected = true;
  EXPECT_THAT(ailments_of(status), HasSubstr("no lease"));
  EXPECT_THAT(metrics_of(status), HasSubstr("\npenstock_cluster_has_lease 0\n"));
  EXPECT_THAT(metrics_of(status), HasSubstr("penstock_chain_updates_pending{target=\"5\"} 3\n"));
  EXPECT_THAT(metrics_of(status),
              HasSubstr("penstock_peer_connected{node=\"1\",service=\"9\"} 0\n"));
  status.cluster->peers[1].connected = true;
  status.cluster->lease_left = std::chrono::seconds(2);
  EXPECT_EQ(ailments_of(status), "");
  EXPECT_THAT(metrics_of(status),
              HasSubstr("penstock_peer_connected{node=\"1\",service=\"9\"} 1\n"));
}

}  // namespace
}  // namespace penstock::apps
