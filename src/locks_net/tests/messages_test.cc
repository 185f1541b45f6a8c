// Words as bytes, which come from elsewhere.
#include "../limits.h"
#include "fill.h"

#include <gtest/gtest.h>
#include <set>

namespace penstock::locks_net {
namespace {

constexpr AgentId kAgent{NodeId{3}, 4};

template <class All>
std::string bytes_of_all(const std::vector<All>& all) {
  std::string bytes;
  for (const All& one : all) encode(one, bytes);
  return bytes;
}

TEST(LocksMessages, of_every_kind_are_read_as_they_were_written) {
  engine::SeededRandom random(1);
  std::set<size_t> words_seen, told_seen;
  for (int i = 0; i < 500; ++i) {
    std::vector<Word> words;
    std::vector<Told> told;
    for (uint64_t n = random.below(6); n > 0; --n) {
      words.push_back(random_word(random, kAgent));
      told.push_back(random_told(random));
      words_seen.insert(words.back().index());
      told_seen.insert(told.back().index());
    }
    const std::string said = bytes_of_all(words);
    const auto read = decode_words(said, kAgent);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(bytes_of_all(*read), said);
    const std::string answer = bytes_of_all(told);
    const auto heard = decode_told(answer);
    ASSERT_TRUE(heard.has_value());
    EXPECT_EQ(bytes_of_all(*heard), answer);
    for (size_t cut = 1; cut < said.size(); ++cut) {
      const auto part = decode_words(std::string_view(said).substr(0, cut), kAgent);
      EXPECT_TRUE(!part || part->size() < words.size());
    }
  }
  EXPECT_EQ(words_seen.size(), std::variant_size_v<Word>);
  EXPECT_EQ(told_seen.size(), std::variant_size_v<Told>);
}

TEST(LocksMessages, have_room_at_their_longest) {
  Wanted wanted;
  wanted.inode = InodeId(UINT64_MAX);
  wanted.owner = {kAgent, Kind::range, UINT64_MAX};
  wanted.range = {locks::kEnd - 1, locks::kEnd};
  wanted.type = Type::write;
  wanted.pid = UINT32_MAX;
  std::string bytes;
  encode(Set{wanted, UINT64_MAX}, bytes);
  EXPECT_LE(bytes.size(), limits::kWordBytesMax);
  ASSERT_TRUE(decode_words(bytes, kAgent).has_value());
}

TEST(LocksMessages, that_make_no_sense_are_refused) {
  const auto is_refused = [](const Word& word) {
    std::string bytes;
    encode(word, bytes);
    return !decode_words(bytes, kAgent).has_value();
  };
  Wanted wanted{InodeId(1), {kAgent, Kind::range, 1}, {5, 6}, Type::read, 1};
  EXPECT_FALSE(is_refused(Set{wanted, 0}));
  wanted.range = {6, 6};
  EXPECT_TRUE(is_refused(Set{wanted, 0}));
  wanted.range = {6, locks::kEnd + 1};
  EXPECT_TRUE(is_refused(Get{wanted}));
  wanted.range = {5, 6};
  wanted.owner.kind = Kind::whole;
  EXPECT_TRUE(is_refused(Set{wanted, 0}));
  wanted.range = {};
  EXPECT_FALSE(is_refused(Set{wanted, 0}));
  wanted.type = Type::none;
  EXPECT_FALSE(is_refused(Set{wanted, 0}));
  EXPECT_TRUE(is_refused(Have{wanted}));
  EXPECT_TRUE(is_refused(Cancel{0}));
  wanted.inode = InodeId();
  EXPECT_TRUE(is_refused(Set{wanted, 0}));
  std::string many;
  for (size_t i = 0; i <= limits::kWordsAtOnce; ++i) encode(HaveAll{}, many);
  EXPECT_FALSE(decode_words(many, kAgent).has_value());
}

}  // namespace
}  // namespace penstock::locks_net
