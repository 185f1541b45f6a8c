#include "check/net_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

using probe::CardFacts;
using probe::MachineFacts;
using probe::WayFacts;
using testing::HasSubstr;
using testing::Not;

WayFacts good_way(const std::string& to) {
  WayFacts way;
  way.transport = "tcp";
  way.from = "10.0.0.1:40000";
  way.to = to;
  way.used = true;
  way.protection = probe::Protection::user_space;
  way.card = "eth0";
  way.card_mtu = 9000;
  way.path_mtu = 9000;
  way.segment_bytes = 8948;
  way.segments = 100'000;
  way.congestion = "cubic";
  way.latency_median_ns = 45'000;
  way.latency_p99_ns = 9'500;
  way.place_bytes_per_second = 1'200'000'000;
  way.fetch_bytes_per_second = 1'100'000'000;
  way.reasons = {"no RDMA device on this machine"};
  return way;
}

MachineFacts good_machine(const std::string& address) {
  MachineFacts machine;
  machine.cards = {CardFacts{"eth0", address, 0, 9000, true, 100'000}};
  machine.memlock_bytes = 8 * kMiB;
  return machine;
}

// Two nodes that reach one another.
NetDocument two_nodes() {
  NetDocument document;
  document.asked = 1;
  document.nodes = {{1, "alpha", good_machine("10.0.0.1"), ""},
                    {2, "beta", good_machine("10.0.0.2"), ""}};
  document.pairs = {{1, 2, {good_way("10.0.0.2:9180")}, ""},
                    {2, 1, {good_way("10.0.0.1:9180")}, ""}};
  return document;
}

Finding bad_one(const NetDocument& document) {
  const std::vector<Finding> findings = findings_of(document);
  for (const Finding& one : findings) {
    if (one.verdict != Verdict::good) return one;
  }
  ADD_FAILURE() << "nothing is wrong: " << text_of(findings);
  return {};
}

TEST(NetCheck, has_a_row_for_each_way_and_says_why_not_better) {
  const NetDocument document = two_nodes();
  const std::string table = table_of(document);
  EXPECT_THAT(table, HasSubstr("10.0.0.2:9180"));
  EXPECT_THAT(table, HasSubstr("user space"));
  EXPECT_THAT(table, HasSubstr("45 us"));
  EXPECT_THAT(table, HasSubstr("9.5 us"));
  EXPECT_THAT(table, HasSubstr("1.20 GB/s"));
  // A head, a line below it, and a row for each.
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << table;
  EXPECT_EQ(reasons_of(document), "  nodes 1, 2: no RDMA device on this machine\n");
  EXPECT_TRUE(is_well(findings_of(document))) << text_of(findings_of(document));
}

TEST(NetCheck, reads_what_a_node_answers) {
  const NetDocument document = two_nodes();
  Json json = {{"node", 1}, {"nodes", Json::array()}, {"pairs", Json::array()}};
  for (const auto& node : document.nodes) {
    json["nodes"].push_back({{"node", node.node},
                             {"name", node.name},
                             {"trouble", node.trouble},
                             {"machine", probe::json_of(*node.machine)}});
  }
  for (const auto& pair : document.pairs) {
    json["pairs"].push_back({{"from", pair.from},
                             {"to", pair.to},
                             {"trouble", ""},
                             {"ways", Json::array({probe::json_of(pair.ways[0])})}});
  }
  const NetDocument read = read_net_document(json);
  EXPECT_EQ(table_of(read), table_of(document));
  EXPECT_EQ(text_of(findings_of(read)), text_of(findings_of(document)));
  EXPECT_TRUE(read_net_document(Json::array()).pairs.empty());
  EXPECT_TRUE(table_of(read_net_document(Json::object())).empty());
}

TEST(NetCheck, names_a_node_that_is_not_reached) {
  NetDocument document = two_nodes();
  WayFacts& way = document.pairs[0].ways[0];
  way = WayFacts();
  way.transport = "tcp";
  way.to = "10.0.0.2:9180";
  way.trouble = "10.0.0.2:9180: Connection refused";
  const Finding finding = bad_one(document);
  EXPECT_EQ(finding.verdict, Verdict::bad);
  EXPECT_THAT(finding.what, HasSubstr("node 1 to node 2"));
  EXPECT_EQ(finding.found, "10.0.0.2:9180 is not reached: Connection refused");
  EXPECT_THAT(finding.mend, HasSubstr("ping 10.0.0.2"));
  EXPECT_FALSE(is_well(findings_of(document)));
}

TEST(NetCheck, tells_of_large_packets_that_are_lost_where_small_ones_pass) {
  NetDocument document = two_nodes();
  WayFacts& way = document.pairs[0].ways[0];
  way.trouble = "timed out";
  way.fetch_bytes_per_second = 0;
  const Finding away = bad_one(document);
  EXPECT_EQ(away.found,
            "10.0.0.2:9180: small calls pass, and 1 MiB from node 1 does not: timed out");
  EXPECT_THAT(away.mend, HasSubstr("ping -M do -s 8972 10.0.0.2 on node 1"));
  EXPECT_THAT(away.mend, HasSubstr("ip link set eth0 mtu 1500"));
  way.place_bytes_per_second = 0;
  const Finding towards = bad_one(document);
  EXPECT_THAT(towards.found, HasSubstr("1 MiB from node 2 does not"));
  EXPECT_THAT(towards.mend, HasSubstr("ping -M do -s 8972 10.0.0.1 on node 2"));
}

TEST(NetCheck, names_a_node_that_does_not_answer) {
  NetDocument document = two_nodes();
  document.nodes[1].machine.reset();
  document.nodes[1].trouble = "it does not answer";
  document.pairs[1].ways.clear();
  document.pairs[1].trouble = "node 2 could not be asked";
  const std::string text = text_of(findings_of(document));
  EXPECT_THAT(text, HasSubstr("node 2 (beta)\n  BAD   its answer: none: it does not answer"));
  EXPECT_THAT(text, HasSubstr("node 2 to node 1: not measured: node 2 could not be asked"));
  EXPECT_THAT(table_of(document), HasSubstr("not measured"));
}

TEST(NetCheck, tells_of_a_path_that_passes_less_than_the_cards_send) {
  NetDocument document = two_nodes();
  document.pairs[0].ways[0].path_mtu = 1500;
  const Finding finding = bad_one(document);
  EXPECT_EQ(finding.verdict, Verdict::bad);
  EXPECT_THAT(finding.found, HasSubstr("1500 bytes pass at most, and both cards send 9000"));
  EXPECT_THAT(finding.mend, HasSubstr("ip link set eth0 mtu 1500"));
}

TEST(NetCheck, tells_of_segments_that_somebody_on_the_way_makes_smaller) {
  NetDocument document = two_nodes();
  document.pairs[0].ways[0].segment_bytes = 1448;
  EXPECT_THAT(bad_one(document).found, HasSubstr("packets of 1500 bytes pass at most"));
}

TEST(NetCheck, does_not_judge_segments_of_loopback) {
  NetDocument document = two_nodes();
  for (auto& node : document.nodes) node.machine->cards[0].mtu = 65'536;
  for (auto& pair : document.pairs) {
    pair.ways[0].card_mtu = 65'536;
    pair.ways[0].path_mtu = 65'535;  // as the kernel says it of loopback
    pair.ways[0].segment_bytes = 21'888;
  }
  EXPECT_TRUE(is_well(findings_of(document))) << text_of(findings_of(document));
}

TEST(NetCheck, tells_of_cards_with_different_mtus_and_on_which_node_to_change_it) {
  NetDocument document = two_nodes();
  document.nodes[1].machine->cards[0].mtu = 1500;
  document.nodes[1].machine->cards[0].name = "eth7";
  document.pairs[0].ways[0].path_mtu = 1500;
  document.pairs[0].ways[0].segment_bytes = 1448;
  const Finding finding = bad_one(document);
  EXPECT_EQ(finding.verdict, Verdict::note);
  EXPECT_THAT(finding.found, HasSubstr("MTU 9000 on eth0 of node 1, 1500 on eth7 of node 2"));
  EXPECT_THAT(finding.mend, HasSubstr("ip link set eth7 mtu 9000 on node 2"));
}

TEST(NetCheck, tells_of_packets_that_are_sent_again_and_again) {
  NetDocument document = two_nodes();
  document.pairs[1].ways[0].retransmissions = 500;
  const Finding finding = bad_one(document);
  EXPECT_THAT(finding.what, HasSubstr("node 2 to node 1"));
  EXPECT_THAT(finding.found, HasSubstr("500 of 100000 packets were sent again (cubic)"));
  document.pairs[1].ways[0].retransmissions = 15;
  EXPECT_EQ(text_of(findings_of(document)), text_of(findings_of(two_nodes())));
}

TEST(NetCheck, tells_of_locked_memory_only_where_rdma_needs_it) {
  MachineFacts machine = good_machine("10.0.0.1");
  EXPECT_TRUE(is_well(findings_of(machine, "here")));
  machine.rdma_devices = {"mlx5_0"};
  const std::string text = text_of(findings_of(machine, "here"));
  EXPECT_THAT(text, HasSubstr("BAD   locked memory (memlock): 8.00 MiB: too little for RDMA"));
  EXPECT_THAT(text, HasSubstr("LimitMEMLOCK=infinity"));
  machine.memlock_bytes = UINT64_MAX;
  EXPECT_TRUE(is_well(findings_of(machine, "here")));
}

TEST(NetCheck, says_how_to_get_a_library_for_a_device_that_the_kernel_has) {
  MachineFacts machine = good_machine("10.0.0.1");
  machine.rdma_without_library = true;
  EXPECT_THAT(text_of(findings_of(machine, "here")), HasSubstr("apt-get install rdma-core"));
}

TEST(NetCheck, tells_of_cards_that_are_down_or_not_there) {
  MachineFacts machine = good_machine("10.0.0.1");
  machine.cards[0].is_up = false;
  machine.cards.push_back({"", "10.9.9.9", 0, 0, false, 0});
  const std::string text = text_of(findings_of(machine, "here"));
  EXPECT_THAT(text, HasSubstr("BAD   eth0 (10.0.0.1): DOWN, 100 Gbit/s, MTU 9000"));
  EXPECT_THAT(text, HasSubstr("ip link set eth0 up"));
  EXPECT_THAT(text, HasSubstr("BAD   card (10.9.9.9): no card of this machine has the address"));
  machine.cards.clear();
  EXPECT_THAT(text_of(findings_of(machine, "here")), HasSubstr("no other machine is reached"));
}

TEST(NetCheck, says_so_where_a_cluster_is_insecure) {
  NetDocument document = two_nodes();
  document.nodes[0].machine->insecure = true;
  document.pairs[0].ways[0].protection = probe::Protection::none;
  EXPECT_THAT(text_of(findings_of(document)), HasSubstr("INSECURE: nobody proves who they are"));
  EXPECT_THAT(table_of(document), HasSubstr("none"));
  EXPECT_THAT(table_of(two_nodes()), Not(HasSubstr("none")));
}

}  // namespace
}  // namespace penstock::apps
