#include "commands/difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/telemetry.h"

namespace penstock::apps {
namespace {

using testing::HasSubstr;
using testing::Not;

Json status(uint64_t reads, uint64_t microseconds, uint64_t operations) {
  std::vector<uint64_t> counts(telemetry::Latency::kBuckets);
  counts[telemetry::Latency::bucket_of(1000 * microseconds)] = reads;
  return {{"directory", "/srv/x"},
          {"free_bytes", 1 << 20},
          {"total_bytes", 1 << 21},
          {"operations_waited", operations},
          {"shards", {{{"operations_in_flight", 3}}, {{"operations_in_flight", 4}}}},
          {"operations_by_route", {{"disk-direct", reads}, {"hole", 7}}},
          {"ring_operations",
           {{{"operation", "read"},
             {"route", "disk-direct"},
             {"bytes", 4096 * reads},
             {"counts", counts}}}},
          {"sessions",
           {{{"session", 1}, {"uid", 5}, {"pid", 77}, {"operations", 0}},
            {{"session", 2},
             {"uid", 6},
             {"pid", 78},
             {"operations", operations},
             {"limits", {{"weight", 50}}}}}}};
}

TEST(Difference, tells_what_happened_between_two_looks) {
  const Json between = difference_of(status(100, 90, 10), status(300, 90, 50), 2);
  const Json reads = between["ring_operations"][0];
  EXPECT_EQ(reads["per_second"], 100.0);
  EXPECT_EQ(reads["bytes_per_second"], 409600.0);
  EXPECT_EQ(reads["p50_ns"], 96'000u);
  EXPECT_EQ(between["routes_per_second"], (Json{{"disk-direct", 100.0}}));
  EXPECT_EQ(between["operations_in_flight"], 7u);
  EXPECT_EQ(between["waited_per_second"], 20.0);
  // The busiest first.
  EXPECT_EQ(between["sessions"][0]["session"], 2u);
  EXPECT_EQ(between["sessions"][0]["per_second"], 20.0);
  const std::string screen = screen_of(between);
  EXPECT_THAT(screen, HasSubstr("/srv/x"));
  EXPECT_THAT(screen, HasSubstr("96 us"));
  EXPECT_THAT(screen, HasSubstr("weight 50"));
}

TEST(Difference, a_quiet_node_and_one_that_began_anew_have_no_rates) {
  const Json quiet = difference_of(status(100, 90, 10), status(100, 90, 10), 2);
  EXPECT_TRUE(quiet["ring_operations"].empty());
  EXPECT_EQ(quiet["routes_per_second"], Json::object());
  const Json anew = difference_of(status(100, 90, 10), status(10, 90, 5), 2);
  EXPECT_EQ(anew["waited_per_second"], 0.0);
  EXPECT_TRUE(anew["ring_operations"].empty());
  EXPECT_THAT(screen_of(difference_of(Json::object(), Json::object(), 1)),
              HasSubstr("no sessions"));
}

TEST(Difference, a_node_that_only_stores_has_targets_and_peers) {
  const auto look = [](uint64_t reads) {
    return Json{{"directory", "/srv/s"},
                {"cluster",
                 {{"node", 4},
                  {"lease_seconds_left", 2.5},
                  {"traffic", {{"reads", reads}, {"read_bytes", 4096 * reads}}},
                  {"targets",
                   {{{"target", 7}, {"chains", 3}, {"directory", "/mnt/a"}},
                    {{"target", 0}, {"trouble", "refused"}}}},
                  {"peers", {{{"node", 2}, {"connected", false}, {"trouble", "no route"}}}}}}};
  };
  const Json between = difference_of(look(100), look(300), 2);
  EXPECT_EQ(between["cluster"]["traffic_per_second"]["reads"], 100.0);
  EXPECT_EQ(between["cluster"]["traffic_per_second"]["read_bytes"], 409600.0);
  EXPECT_FALSE(between.value("has_names", true));
  const std::string screen = screen_of(between);
  EXPECT_THAT(screen, HasSubstr("node 4 of its cluster\n"));
  EXPECT_THAT(screen, HasSubstr("/mnt/a"));
  EXPECT_THAT(screen, HasSubstr("does not serve: refused"));
  EXPECT_THAT(screen, HasSubstr("no route"));
  EXPECT_THAT(screen, Not(HasSubstr("sessions")));
  Json cut = look(1);
  cut["cluster"]["lease_seconds_left"] = 0.0;
  EXPECT_THAT(screen_of(difference_of(cut, cut, 1)), HasSubstr("without a lease"));
}

TEST(Difference, many_sessions_are_cut_to_a_screen) {
  Json many = {{"sessions", Json::array()}};
  for (int i = 0; i < 100; ++i) many["sessions"].push_back({{"session", i}});
  const std::string screen = screen_of(difference_of(many, many, 1));
  EXPECT_THAT(screen, HasSubstr("and 80 more"));
  EXPECT_LT(std::count(screen.begin(), screen.end(), '\n'), 30);
}

}  // namespace
}  // namespace penstock::apps
