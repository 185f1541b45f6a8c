#include "penstock/engine/repeated_log.h"

#include <gtest/gtest.h>
#include <vector>

namespace penstock::engine {
namespace {

class SetClock : public Clock {
 public:
  Time now() const override { return time; }
  WallTime wall() const override { return {}; }
  Time time{};
};

std::vector<std::string> lines;

TEST(RepeatedLog, says_a_cause_once_in_a_minute_and_counts) {
  lines.clear();
  SetClock clock;
  RepeatedLog log(clock, [](log::Level, std::string_view line) { lines.emplace_back(line); });
  for (int i = 0; i < 39'488; ++i) log.warning("refused 1000", "user 1000 is refused");
  EXPECT_EQ(lines, std::vector<std::string>{"user 1000 is refused"});
  log.warning("refused 1001", "user 1001 is refused");
  EXPECT_EQ(lines.size(), 2u) << "another cause";
  clock.time += std::chrono::minutes(1);
  for (int i = 0; i < 5; ++i) log.warning("refused 1000", "user 1000 is refused");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2], "user 1000 is refused (39487 more like it since it was last said)");
  clock.time += std::chrono::minutes(2);
  log.warning("refused 1001", "user 1001 is refused");
  EXPECT_EQ(lines.back(), "user 1001 is refused");
}

TEST(RepeatedLog, is_bounded_however_many_causes_there_are) {
  lines.clear();
  SetClock clock;
  RepeatedLog log(clock, [](log::Level, std::string_view line) { lines.emplace_back(line); });
  for (int i = 0; i < 10'000; ++i) log.warning("cause " + std::to_string(i), "something");
  EXPECT_LT(lines.size(), 1000u);
  clock.time += std::chrono::minutes(1);
  log.warning("a new one", "another");
  EXPECT_EQ(lines.back(), "another");
}

}  // namespace
}  // namespace penstock::engine
