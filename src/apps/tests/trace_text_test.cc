#include "commands/trace_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>

namespace penstock::apps {
namespace {

using testing::HasSubstr;

Json operation(int64_t taken, int64_t sent, int64_t landed, int64_t completed) {
  return {{"operation", "read"}, {"route", "disk-direct"},
          {"shard", 2},          {"uid", 7},
          {"inode", 42},         {"offset", 8192},
          {"result", 4096},      {"pieces", 1},
          {"taken", taken},      {"sent", sent},
          {"landed", landed},    {"completed", completed}};
}

TEST(TraceText, tells_averages_and_the_slowest_first) {
  Json operations = Json::array();
  operations.push_back(operation(1'000'000, 1'001'000, 1'091'000, 1'092'000));
  operations.push_back(operation(2'000'000, 2'003'000, 2'293'000, 2'296'000));
  operations[1]["result"] = -5;
  const std::string text = table_of_trace(operations);
  EXPECT_THAT(text, testing::ContainsRegex("read +disk-direct +2 +2.0 +190.0 +2.0 +194.0"));
  EXPECT_LT(text.find("error 5"), text.find("4096 "));
  EXPECT_THAT(table_of_trace(Json::array()), HasSubstr("no operation"));
}

TEST(TraceText, intervals_of_events_begin_and_end_within_their_operation) {
  Json operations = Json::array();
  operations.push_back(operation(1'000'000, 1'001'000, 1'091'000, 1'092'000));
  operations.push_back(operation(5'000'000, 0, 0, 5'002'000));  // never went to a target
  const Json events = trace_events_of(operations)["traceEvents"];
  std::map<int, int> begun, open;
  std::map<int, double> at;
  for (const Json& event : events) {
    if (event["ph"] == "M") continue;
    const int id = event["id"];
    EXPECT_EQ(event["pid"], 1);
    EXPECT_EQ(event["tid"], 2);
    const int step = event["ph"] == "b" ? 1 : -1;
    open[id] += step;
    if (step > 0) ++begun[id];
  }
  EXPECT_EQ(begun, (std::map<int, int>{{1, 4}, {2, 1}}));
  EXPECT_EQ(open, (std::map<int, int>{{1, 0}, {2, 0}}));
  EXPECT_EQ(events[1]["ts"], 1000.0);
  EXPECT_EQ(events[2]["ts"], 1092.0);
  EXPECT_EQ(events[1]["args"]["inode"], 42);
}

}  // namespace
}  // namespace penstock::apps
