// Words as bytes, which come from elsewhere.
#include "../limits.h"
#include "fill.h"

#include <gtest/gtest.h>
#include <set>

namespace penstock::holds_net {
namespace {

constexpr AgentId kAgent{NodeId{3}, 4};

template <class All>
std::string bytes_of_all(const std::vector<All>& all) {
  std::string bytes;
  for (const All& one : all) encode(one, bytes);
  return bytes;
}

TEST(HoldsMessages, of_every_kind_are_read_as_they_were_written) {
  engine::SeededRandom random(1);
  std::set<size_t> words_seen, told_seen;
  for (int i = 0; i < 500; ++i) {
    std::vector<Word> words;
    std::vector<Told> told;
    for (uint64_t n = random.below(6); n > 0; --n) {
      words.push_back(random_word(random, kAgent));
      told.push_back(random_told(random, kAgent));
      words_seen.insert(words.back().index());
      told_seen.insert(told.back().index());
    }
    const std::string said = bytes_of_all(words);
    const auto read = decode_words(said, kAgent);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->size(), words.size());
    EXPECT_EQ(bytes_of_all(*read), said);
    const std::string answer = bytes_of_all(told);
    const auto heard = decode_told(answer, kAgent);
    ASSERT_TRUE(heard.has_value());
    EXPECT_EQ(heard->size(), told.size());
    EXPECT_EQ(bytes_of_all(*heard), answer);
  }
  EXPECT_EQ(words_seen.size(), std::variant_size_v<Word>);
  EXPECT_EQ(told_seen.size(), std::variant_size_v<Told>);
}

TEST(HoldsMessages, are_of_the_agent_that_said_them) {
  std::string bytes;
  encode(Word(Want{{NodeId{9}, 9}, RequestId(1), InodeId(2), Hold::exclusive, false}), bytes);
  const auto words = decode_words(bytes, kAgent);
  ASSERT_TRUE(words.has_value());
  const Want& want = std::get<Want>(words->front());
  EXPECT_EQ(want.agent, kAgent);
  EXPECT_EQ(want.request, RequestId(1));
  EXPECT_EQ(want.inode, InodeId(2));
  EXPECT_EQ(want.hold, Hold::exclusive);
  EXPECT_FALSE(want.waits);
}

TEST(HoldsMessages, that_are_cut_are_refused) {
  engine::SeededRandom random(2);
  for (int i = 0; i < 300; ++i) {
    std::string said, told;
    encode(random_word(random, kAgent), said);
    encode(random_told(random, kAgent), told);
    for (size_t length = 1; length < said.size(); ++length) {
      EXPECT_FALSE(decode_words(said.substr(0, length), kAgent).has_value());
    }
    for (size_t length = 1; length < told.size(); ++length) {
      EXPECT_FALSE(decode_told(told.substr(0, length), kAgent).has_value());
    }
    EXPECT_FALSE(decode_words(said + '\0', kAgent).has_value());
    EXPECT_LE(said.size(), limits::kWordBytesMax);
  }
}

TEST(HoldsMessages, of_random_bytes_are_refused_or_read_as_what_they_say) {
  engine::SeededRandom random(3);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random.below(30), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.below(random.chance(1, 2) ? 8 : 256));
    taken += read_all(bytes) ? 1 : 0;
  }
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, 20'000);
}

TEST(HoldsMessages, that_speak_of_nothing_or_of_too_much_are_refused) {
  // A want of inode 0, a hold that there is not, a flag that is none.
  for (const std::string& bytes : {std::string("\1\0\1\1\1", 5), std::string("\1\1\1\3\1", 5),
                                   std::string("\1\1\1\1\2", 5), std::string("\0", 1)}) {
    EXPECT_FALSE(decode_words(bytes, kAgent).has_value());
  }
  EXPECT_TRUE(decode_words(std::string("\1\1\1\1\1", 5), kAgent).has_value());
  // Claims for whose stamps no answer has room.
  std::string claims;
  for (size_t i = 0; i < limits::kClaimsAtOnce; ++i) encode(Word(Claim{InodeId(1)}), claims);
  EXPECT_TRUE(decode_words(claims, kAgent).has_value());
  encode(Word(Claim{InodeId(1)}), claims);
  EXPECT_FALSE(decode_words(claims, kAgent).has_value());
  // Names that are more than all bytes take no memory.
  std::string recall("\2\1\1\1\0\1", 6);
  EXPECT_FALSE(decode_told(recall + "\xff\xff\xff\xff\x0f", kAgent).has_value());
  EXPECT_TRUE(decode_told(recall + '\0', kAgent).has_value());
}

}  // namespace
}  // namespace penstock::holds_net
