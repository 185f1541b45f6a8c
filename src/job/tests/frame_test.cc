#include "frame.h"

#include "rank_set.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace penstock::job {
namespace {

std::vector<uint32_t> there_and_back(const std::vector<uint32_t>& ranks, size_t* bytes = nullptr) {
  ByteWriter to;
  write_ranks(to, ranks);
  if (bytes != nullptr) *bytes = to.bytes().size();
  ByteReader from(to.bytes());
  const auto read = read_ranks(from, 65536);
  EXPECT_TRUE(read.has_value() && from.complete());
  return read.value_or(std::vector<uint32_t>{});
}

TEST(RankSet, comes_back_and_is_short_when_strided) {
  std::vector<uint32_t> world(10'000);
  std::iota(world.begin(), world.end(), 0);
  size_t bytes = 0;
  EXPECT_EQ(there_and_back(world, &bytes), world);
  EXPECT_EQ(bytes, 4 + kRunBytes);
  EXPECT_EQ(there_and_back({3, 10, 17, 24}, &bytes), (std::vector<uint32_t>{3, 10, 17, 24}));
  EXPECT_EQ(bytes, 4 + kRunBytes);
  std::mt19937 random(7);
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < 300; ++rank) {
      if (random() % 3 == 0) ranks.push_back(rank);
    }
    EXPECT_EQ(there_and_back(ranks), ranks);
  }
}

TEST(RankSet, nonsense_is_refused) {
  const auto read = [](std::initializer_list<uint32_t> words, uint32_t size = 8) {
    ByteWriter to;
    for (const uint32_t word : words) to.number(word);
    ByteReader from(to.bytes());
    return read_ranks(from, size).has_value();
  };
  EXPECT_TRUE(read({1, 0, 1, 8}));
  EXPECT_FALSE(read({0})) << "empty";
  EXPECT_FALSE(read({1, 0, 1, 9})) << "beyond";
  EXPECT_FALSE(read({1, 0, 0, 2})) << "no distance";
  EXPECT_FALSE(read({1, 0, 1, 0})) << "an empty run";
  EXPECT_FALSE(read({2, 4, 1, 1, 4, 1, 1})) << "twice";
  EXPECT_FALSE(read({2, 4, 1, 1, 2, 1, 1})) << "descending";
  EXPECT_FALSE(read({1, 1, UINT32_MAX, 8})) << "overflow";
  EXPECT_FALSE(read({9, 0, 1, 1})) << "more runs than ranks";
  EXPECT_FALSE(read({2, 0, 1, 1})) << "cut";
}

TEST(Frame, bodies_come_back) {
  const auto welcome = decode_welcome(encode(Welcome{{0, 0, 1, 1, 1, 0}}));
  ASSERT_TRUE(welcome.has_value());
  const Place place = welcome->place_of(5);
  EXPECT_EQ(place.size, 6U);
  EXPECT_EQ(place.node, 0U);
  EXPECT_EQ(place.nodes, 2U);
  EXPECT_EQ(place.node_rank, 2U);
  EXPECT_EQ(place.node_size, 3U);
  const auto ended = decode_ended(encode(EndedBody{{{2, How::killed, 9, "why"}}, {0, 1}}), 3);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->ends[0].text, "why");
  EXPECT_EQ(ended->left, (std::vector<uint32_t>{0, 1}));
  const auto told = decode_abort(encode_abort(-3, "because"));
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(*told, (std::pair<int32_t, std::string>{-3, "because"}));
  EXPECT_FALSE(decode_ended(encode(EndedBody{{{3, How::killed, 9, ""}}, {}}), 3).has_value());
  EXPECT_FALSE(decode_failed(encode(FailedBody{Code::ok, ""})).has_value());
}

// Every cut of each body, and bytes that are changed, end without a fault.
TEST(Frame, nothing_that_is_sent_is_believed) {
  const std::vector<uint32_t> ranks{0, 1, 5};
  const std::vector<std::vector<std::byte>> bodies = {
      encode(Hello{}),
      encode(Welcome{{0, 1, 1}}),
      encode_bring("name", ranks, {}),
      encode(FailedBody{Code::busy, "text"}),
      encode(EndedBody{{{1, How::exited, 1, "text"}}, {2}}),
      encode_abort(1, "why")};
  std::mt19937 random(3);
  uint32_t taken = 0;
  for (const auto& body : bodies) {
    for (int turn = 0; turn < 2000; ++turn) {
      auto copy = body;
      copy.resize(random() % (copy.size() + 1));
      for (uint32_t changes = random() % 4; changes > 0 && !copy.empty(); --changes) {
        copy[random() % copy.size()] = static_cast<std::byte>(random());
      }
      const auto ended = decode_ended(copy, 6);
      EXPECT_TRUE(!ended || ended->ends.size() <= 6);
      (void)decode_abort(copy);
      if (const auto bring = decode_bring(copy)) {
        ByteReader from(bring->ranks);
        const auto read = read_ranks(from, 6);
        EXPECT_TRUE(!read || read->back() < 6);
      }
      ByteReader from(copy);
      const auto shares = decode_shares(from, 3, 2);
      EXPECT_TRUE(!shares || shares->size() == 3);
      if (decode_hello(copy) || decode_welcome(copy) || decode_failed(copy)) ++taken;
    }
  }
  EXPECT_GT(taken, 0U) << "all were cut short";
}

}  // namespace
}  // namespace penstock::job
