#include <cstring>
#include <gtest/gtest.h>
#include <string>

#include "penstock/tcp.h"

namespace penstock::tcp {
namespace {

using Buffer = std::array<std::byte, limits::kMessageBytesMax>;

ClusterId cluster(uint8_t number) {
  ClusterId id{};
  id[15] = std::byte{number};
  return id;
}

Identity server() {
  return {.cluster = cluster(1),
          .node = NodeId{2},
          .incarnation = Incarnation{77},
          .lowest_version = 3,
          .highest_version = 5,
          .features = 0b0110};
}

const std::string kProof = "a proof";

Hello good_hello() {
  return {.lowest_version = 4,
          .highest_version = 9,
          .features = 0b1100,
          .cluster = cluster(1),
          .node = NodeId{1},
          .wanted = NodeId{2},
          .service = 6,
          .incarnation = Incarnation{1234},
          .proof = std::as_bytes(std::span(kProof))};
}

std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Greeting, a_hello_comes_back_as_it_was) {
  Buffer buffer;
  const uint32_t length = encode_hello(good_hello(), buffer);
  EXPECT_EQ(length, 48 + kProof.size());
  const auto back = decode_hello(Bytes(buffer).first(length));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->lowest_version, 4);
  EXPECT_EQ(back->highest_version, 9);
  EXPECT_EQ(back->features, 0b1100u);
  EXPECT_EQ(back->cluster, cluster(1));
  EXPECT_EQ(back->node, NodeId{1});
  EXPECT_EQ(back->wanted, NodeId{2});
  EXPECT_EQ(back->service, 6u);
  EXPECT_EQ(back->incarnation, Incarnation{1234});
  EXPECT_EQ(text_of(back->proof), kProof);
}

TEST(Greeting, a_welcome_comes_back_as_it_was) {
  Welcome welcome = agree(server(), good_hello(), 64);
  welcome.proof = std::as_bytes(std::span(kProof));
  Buffer buffer;
  const uint32_t length = encode_welcome(welcome, buffer);
  const auto back = decode_welcome(Bytes(buffer).first(length));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->version, welcome.version);
  EXPECT_EQ(back->calls_max, 64u);
  EXPECT_EQ(back->features, welcome.features);
  EXPECT_EQ(back->node, NodeId{2});
  EXPECT_EQ(back->incarnation, Incarnation{77});
  EXPECT_EQ(text_of(back->proof), kProof);
}

TEST(Greeting, a_refusal_brings_its_reason_to_the_caller) {
  Buffer buffer;
  const uint32_t length =
      encode_refused({Refusal::wrong_version, 3, 5, "node 2 speaks 3 to 5"}, buffer);
  const auto back = decode_refused(Bytes(buffer).first(length));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->reason, Refusal::wrong_version);
  EXPECT_EQ(back->lowest_version, 3);
  EXPECT_EQ(back->highest_version, 5);
  EXPECT_EQ(back->text, "node 2 speaks 3 to 5");
}

TEST(Greeting, a_refusal_for_a_reason_of_later_versions_is_a_refusal) {
  Buffer buffer;
  const uint32_t length = encode_refused({static_cast<Refusal>(999), 3, 5, ""}, buffer);
  const auto back = decode_refused(Bytes(buffer).first(length));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(refusal_name(back->reason), "unknown reason");
}

TEST(Greeting, messages_of_another_length_are_refused) {
  Buffer buffer{};
  const uint32_t hello = encode_hello(good_hello(), buffer);
  for (uint32_t length = 0; length <= hello + 1; ++length) {
    EXPECT_EQ(decode_hello(Bytes(buffer).first(length)).has_value(), length == hello) << length;
  }
  const uint32_t welcome = encode_welcome(agree(server(), good_hello(), 64), buffer);
  for (uint32_t length = 0; length <= welcome + 1; ++length) {
    EXPECT_EQ(decode_welcome(Bytes(buffer).first(length)).has_value(), length == welcome);
  }
  const uint32_t refused = encode_refused({Refusal::too_many, 3, 5, "why"}, buffer);
  for (uint32_t length = 0; length <= refused + 1; ++length) {
    EXPECT_EQ(decode_refused(Bytes(buffer).first(length)).has_value(), length == refused);
  }
}

TEST(Greeting, hellos_of_nobody_for_nobody_or_of_no_version_are_refused) {
  const auto accepted_with = [](size_t at, uint8_t value) {
    Buffer buffer;
    const uint32_t length = encode_hello(good_hello(), buffer);
    buffer[at] = std::byte{value};
    return decode_hello(Bytes(buffer).first(length)).has_value();
  };
  EXPECT_TRUE(accepted_with(32, 8));
  EXPECT_FALSE(accepted_with(32, 0)) << "node";
  EXPECT_FALSE(accepted_with(36, 0)) << "wanted";
  EXPECT_FALSE(accepted_with(0, 10)) << "lowest above highest";
}

TEST(Greeting, welcomes_of_nobody_or_with_room_for_no_call_or_too_many_are_refused) {
  const auto accepted_with = [](size_t at, uint32_t value) {
    Buffer buffer;
    const uint32_t length = encode_welcome(agree(server(), good_hello(), 64), buffer);
    std::memcpy(buffer.data() + at, &value, sizeof value);
    return decode_welcome(Bytes(buffer).first(length)).has_value();
  };
  EXPECT_TRUE(accepted_with(4, limits::kCallsMax));
  EXPECT_FALSE(accepted_with(4, 0)) << "calls";
  EXPECT_FALSE(accepted_with(4, limits::kCallsMax + 1)) << "calls";
  EXPECT_FALSE(accepted_with(16, 0)) << "node";
  EXPECT_FALSE(accepted_with(20, 1)) << "reserved";
}

TEST(Greeting, the_highest_common_version_and_the_common_features_are_agreed_on) {
  Hello hello = good_hello();
  EXPECT_FALSE(objection(server(), hello).has_value());
  EXPECT_EQ(agree(server(), hello, 64).version, 5);
  EXPECT_EQ(agree(server(), hello, 64).features, 0b0100u) << "unknown features are no reason";
  hello.lowest_version = 1;
  hello.highest_version = 3;
  EXPECT_FALSE(objection(server(), hello).has_value());
  EXPECT_EQ(agree(server(), hello, 64).version, 3);
}

TEST(Greeting, nodes_that_must_not_talk_are_told_why) {
  Hello hello = good_hello();
  hello.cluster = cluster(2);
  EXPECT_EQ(objection(server(), hello), Refusal::wrong_cluster);
  hello = good_hello();
  hello.lowest_version = 6;
  EXPECT_EQ(objection(server(), hello), Refusal::wrong_version);
  hello.lowest_version = 1;
  hello.highest_version = 2;
  EXPECT_EQ(objection(server(), hello), Refusal::wrong_version);
  hello = good_hello();
  hello.wanted = NodeId{3};
  EXPECT_EQ(objection(server(), hello), Refusal::wrong_node);
}

TEST(Greeting, of_releases_too_far_apart_says_which_node_to_upgrade) {
  const std::string newer = no_common_version(server(), NodeId{7}, 6, 7);
  EXPECT_EQ(newer,
            "no common version: node 7 speaks versions 6 to 7, this node versions 3 to 5 (upgrade "
            "this node to a release that speaks version 6)");
  const std::string older = no_common_version(server(), NodeId{7}, 2, 2);
  EXPECT_EQ(older,
            "no common version: node 7 speaks version 2, this node versions 3 to 5 (upgrade node 7 "
            "to a release that speaks version 3)");
}

TEST(Greeting, a_welcome_that_was_not_offered_is_a_bad_message) {
  const Hello hello = good_hello();
  const Welcome good = agree(server(), hello, 64);
  EXPECT_TRUE(check_welcome(hello, good).ok());
  Welcome other = good;
  other.version = 3;
  EXPECT_EQ(check_welcome(hello, other), Status(Code::bad_message));
  other.version = 10;
  EXPECT_EQ(check_welcome(hello, other), Status(Code::bad_message));
  other = good;
  other.features = 0b0001;
  EXPECT_EQ(check_welcome(hello, other), Status(Code::bad_message));
  other = good;
  other.node = NodeId{3};
  EXPECT_EQ(check_welcome(hello, other), Status(Code::bad_message));
}

}  // namespace
}  // namespace penstock::tcp
