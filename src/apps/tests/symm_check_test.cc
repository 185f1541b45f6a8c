#include "check/symm_check.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

using bench::SymmPair;
using testing::HasSubstr;
using testing::Not;

bench::SymmReport four_pes() {
  bench::SymmReport report;
  for (uint32_t pe = 0; pe < 4; ++pe) {
    bench::SymmPe one{pe < 3 ? "left" : "right", pe / 3, {}, "", "no driver"};
    if (pe == 3) one = {"right", 1, 2, "H200", ""};
    report.pes.push_back(one);
  }
  report.pairs = 6;
  report.ways.push_back({0, 1, "host", "shared memory", 12e9, 11e9, 12e-9, 3.4e-9, 0.21e-6, ""});
  report.ways.push_back({0, 3, "host", "TCP", 4e9, 3e9, 12e-6, 14e-6, 6e-6, "PE 3 is elsewhere"});
  report.ways.push_back({0, 3, "GPU", "copy engine", 1e9, {}, {}, {}, {}, ""});
  report.rails.push_back({2, 3, 5, "eth5", 50e9, "over NVLink to GPU 5"});
  report.barrier_seconds = 1.5e-3;
  return report;
}

// Two GPUs, each beside a card on a rail of its own, and NVLink between them.
bench::RailPe pe_on_rails(uint32_t node, uint32_t gpu) {
  bench::RailPe pe{node, gpu, {}};
  for (uint32_t i = 0; i < 2; ++i) {
    const std::string port = fmt::format("/sys/devices/pci0000:00/0000:00:0{}.0", i);
    pe.sees.gpus.push_back({{port + "/gpu", 0}, uint64_t{2} >> i});
    pe.sees.cards.push_back(
        {fmt::format("eth{}", i), {port + "/card", 0}, 50e9, fmt::format("rail{}", i)});
  }
  return pe;
}

TEST(SymmCheckText, has_a_row_for_each_way_and_says_where_pes_are) {
  const std::string text = text_of(four_pes());
  for (const char* part :
       {"PEs 0-2: node 0, left, no GPU", "PE 3: node 1, right, GPU 2 (H200)", "shared memory",
        "12.0 GB/s", "3.4 ns", "210.0 ns", "12.00 us", "PE 3 is elsewhere", "2 of 6 pairs",
        "barrier of 4 PEs: 1.5 ms", "not used yet", "eth5", "50.0 GB/s", "over NVLink to GPU 5"}) {
    EXPECT_THAT(text, HasSubstr(part)) << text;
  }
  EXPECT_THAT(text, Not(HasSubstr("was not measured")));
  bench::SymmReport without = four_pes();
  without.gpus = "GPU 0 does not reach the memory of GPU 1";
  EXPECT_THAT(text_of(without), HasSubstr("GPU 0 does not reach the memory of GPU 1"));
}

TEST(SymmCheckText, is_not_well_where_there_is_no_way) {
  bench::SymmReport report = four_pes();
  EXPECT_TRUE(is_well(report));
  report.ways[1].way.clear();
  EXPECT_FALSE(is_well(report));
  EXPECT_THAT(text_of(report), HasSubstr("none"));
}

TEST(SymmReportJson, comes_back_as_it_was) {
  const bench::SymmReport report = four_pes();
  const Json json = json_of(report);
  EXPECT_EQ(json_of(bench::report_from(json)), json);
  EXPECT_FALSE(json["ways"][2].contains("get_bytes_per_second")) << "what was not measured";
  EXPECT_EQ(text_of(bench::report_from(json)), text_of(report));
}

TEST(SymmReportJson, that_makes_no_sense_gives_what_can_be_read) {
  for (const char* text : {"{}", R"({"pes": 3, "ways": [1, {"from": "x", "put_seconds": "y"}]})",
                           R"({"pes": [{"gpu": -1}], "barrier_seconds": null})"}) {
    EXPECT_NO_THROW(text_of(bench::report_from(parse_json(text)))) << text;
  }
}

TEST(SymmRails, are_told_both_ways_for_gpus_of_two_nodes) {
  std::vector<bench::RailPe> pes = {pe_on_rails(0, 0), pe_on_rails(0, 1), pe_on_rails(1, 1)};
  pes.push_back({1, {}, {}});  // without a GPU
  // As they come from other PEs.
  for (bench::RailPe& pe : pes) pe.sees = bench::rail_node_from(bench::json_of(pe.sees));
  const auto rails = bench::rails_between(pes, {{0, 1}, {0, 2}, {1, 2}, {0, 3}});
  ASSERT_EQ(rails.size(), 4U);
  EXPECT_EQ(rails[0].from, 0U);
  EXPECT_EQ(rails[0].to, 2U);
  EXPECT_EQ(rails[0].gpu, 1U) << "the one whose card is on the other's rail";
  EXPECT_EQ(rails[0].card, "eth1");
  EXPECT_DOUBLE_EQ(rails[0].bytes_per_second, 50e9);
  EXPECT_EQ(rails[1].gpu, 0U);
  EXPECT_EQ(rails[1].card, "eth0");
  for (const size_t stays : {2, 3}) {
    EXPECT_EQ(rails[stays].gpu, 1U);
    EXPECT_EQ(rails[stays].card, "eth1");
  }
}

TEST(SymmRails, of_rubbish_are_none) {
  std::vector<bench::RailPe> pes = {pe_on_rails(0, 0), pe_on_rails(1, 7)};
  pes[0].sees = bench::rail_node_from(
      parse_json(R"({"gpus": [{"place": 3}, 1], "cards": [{"bytes_per_second": "x"}, null]})"));
  EXPECT_EQ(pes[0].sees.gpus.size(), 1U);
  EXPECT_EQ(pes[0].sees.cards.size(), 1U);
  for (const bench::SymmRail& rail : bench::rails_between(pes, {{0, 1}}))
    EXPECT_FALSE(rail.why.empty());
}

TEST(PairsToMeasure, are_all_of_few_and_some_of_each_of_many) {
  EXPECT_EQ(bench::pairs_to_measure(2), (std::vector<SymmPair>{{0, 1}}));
  EXPECT_EQ(bench::pairs_to_measure(16).size(), 16U * 15 / 2);
  const std::vector<SymmPair> of_17 = bench::pairs_to_measure(17);
  // Those at distances of 1, 2, 4 and 8.
  EXPECT_EQ(of_17.size(), 17U * 4);
  EXPECT_TRUE(std::ranges::count(of_17, SymmPair{0, 16}) == 1) << "neighbours in the ring";
  EXPECT_TRUE(std::ranges::count(of_17, SymmPair{3, 6}) == 0);
  for (const uint32_t pes : {17U, 32U, 100U, 4096U}) {
    const std::vector<SymmPair> pairs = bench::pairs_to_measure(pes);
    EXPECT_LE(pairs.size(), std::max<size_t>(512, pes));
    std::vector<uint32_t> times(pes);
    for (const SymmPair& pair : pairs) {
      ASSERT_LT(pair.from, pair.to);
      ASSERT_LT(pair.to, pes);
      ++times[pair.from];
      ++times[pair.to];
    }
    EXPECT_GE(*std::ranges::min_element(times), 2U) << pes;
    EXPECT_TRUE(std::ranges::adjacent_find(pairs) == pairs.end()) << pes;
  }
}

}  // namespace
}  // namespace penstock::apps
