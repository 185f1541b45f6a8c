// What nodes of different releases say to one another.
#include <gtest/gtest.h>

#include "penstock/wire.h"

namespace penstock::wire {
namespace {

TEST(NodeVersion, is_the_highest_that_both_speak) {
  EXPECT_EQ(version_for({1, 1, 0}, features_of({1, 1, 0})), 1);
  EXPECT_EQ(version_for({1, 2, 0}, features_of({1, 1, 0})), 1);
  EXPECT_EQ(version_for({1, 1, 0}, features_of({1, 2, 0})), 1);
  EXPECT_EQ(version_for({1, 2, 0}, features_of({1, 2, 0})), 2);
  EXPECT_EQ(version_for({2, 3, 0}, features_of({1, 2, 0})), 2);
  EXPECT_EQ(version_for({62, 63, 0}, features_of({62, 63, 0})), 63);
}

TEST(NodeVersion, is_1_of_nodes_that_say_none) {
  EXPECT_EQ(version_for({1, 2, 0}, 0), 1);
}

TEST(NodeVersion, is_one_of_its_own_where_there_is_none_in_common) {
  EXPECT_EQ(version_for({4, 5, 0}, features_of({1, 2, 0})), 4);
  EXPECT_EQ(version_for({1, 2, 0}, uint64_t{1} << 40), 1) << "of whatever bits";
}

// Versions 1, 2 and 3 whose headers end with the chunk, with the user, and as they do now.
constexpr uint16_t made_up_bytes(uint16_t version) {
  if (version == 1) return 40;
  return version == 2 ? 64 : sizeof(ChainHeader);
}

ChainReadRequest a_read() {
  ChainReadRequest read{{3, 7, 1024, 2}, 4096, 512, 0, 0};
  read.header.user = 9;
  read.header.deadline_us = 8;
  return read;
}
template <class T>
std::vector<std::byte> said_in(uint16_t version, const T& request) {
  std::vector<std::byte> bytes(as_wire(request).begin(), as_wire(request).end());
  bytes.resize(say_in(version, bytes, made_up_bytes));
  return bytes;
}
Result<ChainReadRequest> heard(Bytes bytes, const Protocol& speaks) {
  return decode_chain_request<ChainReadRequest>(bytes, speaks, made_up_bytes);
}

TEST(ChainVersion, leaves_out_what_an_older_header_does_not_have) {
  const std::vector<std::byte> bytes = said_in(1, a_read());
  EXPECT_EQ(bytes.size(), 40 + sizeof(ChainReadRequest) - sizeof(ChainHeader));
  const auto read = heard(bytes, {1, 2, 0});
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->header.protocol, 1U);
  EXPECT_EQ(read->header.chunk, 2U);
  EXPECT_EQ(read->header.user, 0U);
  EXPECT_EQ(read->header.deadline_us, 0U);
  EXPECT_EQ(read->header.header_bytes, sizeof(ChainHeader));
  EXPECT_EQ(read->begin, 4096U);
  EXPECT_EQ(read->length, 512U);
}

TEST(ChainVersion, says_everything_to_who_knows_it) {
  const auto second = heard(said_in(2, a_read()), {1, 2, 0});
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->header.user, 9U);
  EXPECT_EQ(second->header.deadline_us, 0U);
  const auto third = heard(said_in(3, a_read()), {2, 3, 0});
  ASSERT_TRUE(third.has_value());
  EXPECT_EQ(third->header.deadline_us, 8U);
}

TEST(ChainVersion, is_refused_where_it_is_not_spoken) {
  EXPECT_EQ(heard(said_in(3, a_read()), {1, 2, 0}).error(), Code::wrong_version) << "too new";
  EXPECT_EQ(heard(said_in(1, a_read()), {2, 3, 0}).error(), Code::wrong_version) << "too old";
}

TEST(ChainVersion, has_headers_of_one_length) {
  std::vector<std::byte> bytes = said_in(1, a_read());
  const uint16_t second = 2;  // says 2, and has the header of 1
  std::memcpy(bytes.data(), &second, sizeof second);
  EXPECT_EQ(heard(bytes, {1, 2, 0}).error(), Code::bad_message);
  bytes = said_in(1, a_read());
  bytes.pop_back();
  EXPECT_EQ(heard(bytes, {1, 2, 0}).error(), Code::bad_message);
}

TEST(ChainVersion, of_a_request_that_is_a_header_has_nothing_behind_it) {
  const std::vector<std::byte> bytes = said_in(1, ChainAskRequest{{3, 7, 1024, 2}});
  EXPECT_EQ(bytes.size(), 40U);
  EXPECT_TRUE(decode_chain_request<ChainAskRequest>(bytes, {1, 1, 0}, made_up_bytes).has_value());
}

}  // namespace
}  // namespace penstock::wire
