// Meetings without processes: what each rank is told, in any order of things.

#include "meetings.h"

#include "rank_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace penstock::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class MeetingsTest : public testing::Test {
 protected:
  Status bring(uint32_t rank, uint64_t serial, const std::string& name,
               const std::vector<uint32_t>& ranks, size_t bytes = 0) {
    const std::vector<std::byte> brought(bytes);
    const auto body = encode_bring(name, ranks, brought);
    const auto decoded = decode_bring(body);
    return meetings_.bring(rank, serial, *decoded, {});
  }

  std::vector<std::string> told() { return std::exchange(told_, {}); }

  std::vector<std::string> told_;  // "rank/serial: ok", or the failure
  std::string text_;               // of the last failure
  Meetings meetings_{
      6,
      [this](uint32_t rank, uint64_t serial, const std::shared_ptr<const Content>&) {
        told_.push_back(fmt::format("{}/{}: ok", rank, serial));
      },
      [this](uint32_t rank, uint64_t serial, const FailedBody& failed) {
        told_.push_back(fmt::format("{}/{}: {}", rank, serial, Status(failed.code).name()));
        text_ = failed.text;
      }};
};

TEST_F(MeetingsTest, begin_when_all_came_and_leave_nothing_behind) {
  EXPECT_TRUE(bring(1, 1, "a", {0, 1}).ok());
  EXPECT_TRUE(bring(3, 1, "a", {2, 3}).ok());
  EXPECT_EQ(meetings_.count(), 2U);
  EXPECT_TRUE(bring(0, 1, "a", {0, 1}).ok());
  EXPECT_THAT(told(), ElementsAre("0/1: ok", "1/1: ok"));
  EXPECT_TRUE(bring(2, 1, "a", {2, 3}).ok());
  EXPECT_THAT(told(), ElementsAre("2/1: ok", "3/1: ok"));
  EXPECT_EQ(meetings_.count(), 0U);
}

TEST_F(MeetingsTest, of_a_rank_twice_at_once_are_refused) {
  EXPECT_TRUE(bring(1, 1, "a", {0, 1}).ok());
  EXPECT_TRUE(bring(1, 2, "a", {0, 1}).ok());
  EXPECT_THAT(told(), ElementsAre("1/2: in use"));
  EXPECT_EQ(bring(1, 1, "b", {0, 1}).code(), Code::bad_message) << "a serial twice";
  EXPECT_EQ(bring(2, 3, "a", {0, 1}).code(), Code::bad_message) << "not of it";
  for (uint64_t serial = 10; serial < 10 + limits::kMeetingsAtOnceMax; ++serial) {
    EXPECT_TRUE(bring(1, serial, std::to_string(serial), {0, 1}).ok());
  }
  EXPECT_THAT(told(), ElementsAre("1/73: busy"));
}

TEST_F(MeetingsTest, end_for_all_with_a_rank_that_is_gone) {
  EXPECT_TRUE(bring(0, 1, "a", {0, 1, 2}).ok());
  EXPECT_TRUE(bring(1, 1, "a", {0, 1, 2}).ok());
  EXPECT_TRUE(bring(1, 2, "b", {1, 3}).ok());
  meetings_.gone(2, "rank 2 is gone");
  EXPECT_THAT(told(), ElementsAre("0/1: peer gone", "1/1: peer gone"));
  EXPECT_EQ(text_, "rank 2 is gone");
  EXPECT_TRUE(bring(0, 2, "later", {0, 2}).ok());
  EXPECT_THAT(told(), ElementsAre("0/2: peer gone"));
  meetings_.gone(1, "rank 1 is gone");
  EXPECT_THAT(told(), ElementsAre()) << "it waited itself";
  EXPECT_EQ(meetings_.count(), 0U);
}

TEST_F(MeetingsTest, above_the_limit_of_bytes_fail) {
  constexpr size_t kEach = limits::kBringBytesMax;
  std::vector<uint32_t> ranks{0, 1};
  EXPECT_TRUE(bring(0, 1, "a", ranks, kEach).ok());
  EXPECT_TRUE(bring(1, 1, "a", ranks, kEach).ok());
  EXPECT_THAT(told(), ElementsAre("0/1: ok", "1/1: ok"));
  EXPECT_FALSE(
      decode_bring(encode_bring("a", ranks, std::vector<std::byte>(kEach + 1))).has_value());
}

TEST_F(MeetingsTest, that_are_given_up_are_counted_alike_by_all) {
  EXPECT_TRUE(bring(0, 1, "a", {0, 1, 2}).ok());
  EXPECT_TRUE(bring(1, 1, "a", {0, 1, 2}).ok());
  meetings_.withdraw(0, 1);
  EXPECT_THAT(told(), ElementsAre("0/1: timed out", "1/1: cancelled"));
  EXPECT_THAT(text_, HasSubstr("rank 0 waited no longer; had not come: rank 2"));
  // It may go on before the last one has heard.
  EXPECT_TRUE(bring(0, 2, "a", {0, 1, 2}).ok());
  EXPECT_TRUE(bring(2, 1, "a", {0, 1, 2}).ok());
  EXPECT_THAT(told(), ElementsAre("2/1: cancelled"));
  EXPECT_TRUE(bring(2, 2, "a", {0, 1, 2}).ok());
  EXPECT_TRUE(bring(1, 2, "a", {0, 1, 2}).ok());
  EXPECT_THAT(told(), ElementsAre("0/2: ok", "1/2: ok", "2/2: ok"));
  EXPECT_EQ(meetings_.count(), 0U);
  meetings_.withdraw(0, 2);
  EXPECT_THAT(told(), ElementsAre()) << "it was answered";
}

TEST_F(MeetingsTest, that_are_given_up_again_and_again_take_bounded_memory) {
  for (uint64_t serial = 1; serial < 10 * limits::kOverdueMax; ++serial) {
    EXPECT_TRUE(bring(0, serial, std::to_string(serial), {0, 1}).ok());
    meetings_.withdraw(0, serial);
  }
  EXPECT_EQ(meetings_.count(), limits::kOverdueMax);
  meetings_.gone(1, "gone");
  EXPECT_EQ(meetings_.count(), 0U);
}

// From a seed: ranks come, give up and end as they like. Each call has one answer, a meeting that
// takes place has the same calls for all, and nothing is left behind at the end.
TEST_F(MeetingsTest, keep_their_promises_whatever_ranks_do) {
  const std::vector<std::vector<uint32_t>> sets = {
      {0, 1}, {0, 1, 2, 3, 4, 5}, {1, 3, 5}, {2, 3}, {0, 5}};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::set<std::pair<uint32_t, uint64_t>> waiting;
    std::map<const Content*, std::set<uint32_t>> took_place;
    std::vector<std::shared_ptr<const Content>> kept;
    Meetings meetings(
        6,
        [&](uint32_t rank, uint64_t serial, std::shared_ptr<const Content> content) {
          EXPECT_EQ(waiting.erase({rank, serial}), 1U) << seed;
          EXPECT_TRUE(took_place[content.get()].insert(rank).second) << seed;
          kept.push_back(std::move(content));
        },
        [&](uint32_t rank, uint64_t serial, const FailedBody&) {
          EXPECT_EQ(waiting.erase({rank, serial}), 1U) << seed;
        });
    std::set<uint32_t> gone;
    uint64_t serial = 0;
    for (int step = 0; step < 400; ++step) {
      const uint32_t rank = random() % 6;
      if (gone.contains(rank)) continue;
      const uint32_t dice = random() % 100;
      if (dice < 1) {
        gone.insert(rank);
        std::erase_if(waiting, [&](const auto& each) { return each.first == rank; });
        meetings.gone(rank, "gone");
      } else if (dice < 15 && !waiting.empty()) {
        const auto each = std::next(waiting.begin(), random() % waiting.size());
        const auto [who, what] = *each;
        meetings.withdraw(who, what);
        EXPECT_FALSE(waiting.contains({who, what})) << seed;
      } else {
        const auto& set = sets[random() % sets.size()];
        if (std::find(set.begin(), set.end(), rank) == set.end()) continue;
        waiting.emplace(rank, ++serial);
        const auto body = encode_bring("name", set, {});
        EXPECT_TRUE(meetings.bring(rank, serial, *decode_bring(body), {}).ok()) << seed;
      }
    }
    for (const auto& [content, who] : took_place) {
      const std::vector<uint32_t> list(who.begin(), who.end());
      EXPECT_NE(std::find(sets.begin(), sets.end(), list), sets.end()) << seed;
    }
    for (uint32_t rank = 0; rank < 6; ++rank) {
      std::erase_if(waiting, [&](const auto& each) { return each.first == rank; });
      meetings.gone(rank, "gone");
    }
    EXPECT_EQ(meetings.count(), 0U) << seed;
    EXPECT_TRUE(waiting.empty()) << seed;
  }
}

}  // namespace
}  // namespace penstock::job
