#include "kept.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "penstock/testing.h"

namespace penstock::cluster {
namespace {

constexpr const char* kUuid = "00112233445566778899aabbccddeeff";

KeptNode sample_node() {
  KeptNode node;
  node.cluster = *parse_uuid(kUuid);
  node.node = NodeId(2);
  node.roles = kStorageOnly;
  node.listen = {"127.0.0.1:9181"};
  node.controller = "[::1]:9180";
  return node;
}

TEST(Invitation, is_read_as_it_was_written) {
  const std::string text = std::string(kUuid) + "@127.0.0.1:9180";
  const auto invitation = parse_invitation(text);
  ASSERT_TRUE(invitation);
  EXPECT_EQ(text_of(*invitation), text);
}

TEST(Invitation, says_what_is_wrong_with_another_text) {
  for (const char* text :
       {"", "@", "00112233445566778899aabbccddeeff", "00112233445566778899aabbccddeefg@127.0.0.1:1",
        "00000000000000000000000000000000@127.0.0.1:1",
        "00112233445566778899aabbccddeeff@localhost:1",
        "00112233445566778899aabbccddeeff@127.0.0.1"}) {
    const auto invitation = parse_invitation(text);
    ASSERT_FALSE(invitation) << text;
    EXPECT_EQ(invitation.error().status, Code::invalid_argument);
    EXPECT_FALSE(invitation.error().message.empty());
  }
}

TEST(Kept, is_read_as_it_was_written) {
  const test::ScratchDirectory directory;
  EXPECT_FALSE(read_kept_node(directory.path())->has_value());
  EXPECT_FALSE(read_kept_target(directory.path())->has_value());
  ASSERT_TRUE(keep(directory.path(), sample_node()));
  const auto node = read_kept_node(directory.path());
  ASSERT_TRUE(node && *node);
  EXPECT_EQ((*node)->cluster, sample_node().cluster);
  EXPECT_EQ((*node)->node, NodeId(2));
  EXPECT_EQ((*node)->controller, sample_node().controller);
  EXPECT_EQ((*node)->roles, kStorageOnly);
  const KeptTarget target{*parse_uuid(kUuid), *parse_uuid(kUuid), *parse_uuid(kUuid),
                          controller::Incarnation(7)};
  ASSERT_TRUE(keep(directory.path(), target));
  EXPECT_EQ((*read_kept_target(directory.path()))->incarnation, target.incarnation);
  EXPECT_EQ((*read_kept_target(directory.path()))->node, target.node);
}

TEST(Kept, other_roles_and_several_cards_have_a_format_of_their_own) {
  const test::ScratchDirectory directory;
  const std::string path = directory.path() + "/" + kKeptNodeName;
  ASSERT_TRUE(keep(directory.path(), sample_node()));
  EXPECT_TRUE(test::read_file(path).starts_with("penstock-cluster 1\n"));
  KeptNode node = sample_node();
  node.roles = *parse_roles("agent,meta");
  node.listen.emplace_back("[::1]:9181,rail=1,numa=2");
  ASSERT_TRUE(keep(directory.path(), node));
  EXPECT_TRUE(test::read_file(path).starts_with("penstock-cluster 2\n"));
  const auto read = read_kept_node(directory.path());
  ASSERT_TRUE(read && *read);
  EXPECT_EQ((*read)->roles, node.roles);
  EXPECT_EQ((*read)->listen, node.listen);
}

TEST(Kept, a_target_of_an_earlier_release_does_not_say_its_node) {
  const test::ScratchDirectory directory;
  test::write_file(directory.path() + "/" + kKeptTargetName,
                   fmt::format("penstock-target 1\nuuid {0}\ncluster {0}\nincarnation 3\n", kUuid));
  const auto target = read_kept_target(directory.path());
  ASSERT_TRUE(target && *target);
  EXPECT_EQ((*target)->node, controller::Uuid());
  EXPECT_EQ((*target)->incarnation, controller::Incarnation(3));
}

TEST(Kept, damage_is_told_with_the_name_of_the_file) {
  const test::ScratchDirectory directory;
  ASSERT_TRUE(keep(directory.path(), sample_node()));
  const std::string path = directory.path() + "/" + kKeptNodeName;
  const std::string good = test::read_file(path);
  const auto refused = [&](const std::string& text) {
    test::write_file(path, text);
    const auto node = read_kept_node(directory.path());
    EXPECT_FALSE(node) << text;
    return node ? Status() : node.error().status;
  };
  EXPECT_EQ(refused(""), Code::corrupt);
  EXPECT_EQ(refused("nonsense"), Code::corrupt);
  for (const char* word : {"cluster ", "role ", "node ", "listen ", "controller "}) {
    std::string bad = good;
    bad.insert(bad.find(std::string("\n") + word) + 1 + std::string(word).size(), "x");
    EXPECT_EQ(refused(bad), Code::corrupt) << bad;
  }
  std::string later = good;
  later.replace(later.find(" 1\n"), 2, " 3");
  EXPECT_EQ(refused(later), Code::wrong_version);
}

}  // namespace
}  // namespace penstock::cluster
