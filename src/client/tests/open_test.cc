// Opening and closing files.
#include "node.h"

namespace penstock::client {
namespace {

Credentials user(uint32_t uid) {
  Credentials credentials;
  credentials.uid = uid;
  credentials.gid = uid;
  return credentials;
}

TEST(OpenTest, follows_the_mode_bits_unless_root_asks) {
  Node node;
  EXPECT_TRUE(node.files->close_file(node.open("/a")).ok());  // root, 0644
  EXPECT_TRUE(node.files->open_path(user(7), "/a", {}, 0, {}, nullptr).has_value());
  EXPECT_EQ(node.files->open_path(user(7), "/a", {.write = true}, 0, {}, nullptr).error(),
            Status(Code::access_denied));
  meta::SetAttributes secret;
  secret.mode = 0000;
  const InodeId id = node.files->lookup(node.root, meta::kRootInode, "a")->inode;
  EXPECT_TRUE(node.files->set_attributes(node.root, id, secret, nullptr).has_value());
  EXPECT_EQ(node.files->open_inode(user(7), id, {}, true, nullptr).error(),
            Status(Code::access_denied));
  EXPECT_TRUE(node.files->open_inode(user(7), id, {}, false, nullptr).has_value());
  EXPECT_TRUE(node.files->open_inode(node.root, id, {.write = true}, true, nullptr).has_value());
}

TEST(OpenTest, creator_may_write_when_the_new_mode_forbids_it) {
  Node node;
  ASSERT_TRUE(
      node.files->make_directory(node.root, meta::kRootInode, "d", 0777, nullptr).has_value());
  const auto made =
      node.files->open_path(user(7), "/d/a", {.write = true, .create = true}, 0400, {}, nullptr);
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE(node.write(*made, 0, "x").has_value());
  EXPECT_EQ(node.files->open_path(user(7), "/d/a", {.write = true}, 0, {}, nullptr).error(),
            Status(Code::access_denied));
}

TEST(OpenTest, refuses_what_is_no_regular_file) {
  Node node;
  ASSERT_TRUE(
      node.files->make_directory(node.root, meta::kRootInode, "d", 0755, nullptr).has_value());
  ASSERT_TRUE(
      node.files
          ->make_node(node.root, meta::kRootInode, "p", meta::FileType::fifo, 0644, 0, nullptr)
          .has_value());
  EXPECT_EQ(node.files->open_path(node.root, "/d", {}, 0, {}, nullptr).error(),
            Status(Code::is_directory));
  EXPECT_EQ(node.files->open_path(node.root, "/p", {}, 0, {}, nullptr).error(),
            Status(Code::not_supported));
  EXPECT_EQ(node.files->open_path(node.root, "/none", {}, 0, {}, nullptr).error(),
            Status(Code::not_found));
  EXPECT_EQ(node.files->open_inode(node.root, InodeId{12345}, {}, true, nullptr).error(),
            Status(Code::not_found));
  EXPECT_EQ(node.files->open_path(node.root, "/a", {.read = true, .truncate = true}, 0, {}, nullptr)
                .error(),
            Status(Code::invalid_argument));
  EXPECT_EQ(node.files->status().open_files, 0u);
}

TEST(OpenTest, exclusive_creation_fails_when_the_name_exists) {
  Node node;
  const OpenFlags exclusive{.write = true, .create = true, .exclusive = true};
  EXPECT_TRUE(node.files->open_path(node.root, "/a", exclusive, 0644, {}, nullptr).has_value());
  EXPECT_EQ(node.files->open_path(node.root, "/a", exclusive, 0644, {}, nullptr).error(),
            Status(Code::already_exists));
}

TEST(OpenTest, creates_through_symbolic_links_that_lead_nowhere_yet) {
  Node node;
  ASSERT_TRUE(
      node.files->make_directory(node.root, meta::kRootInode, "d", 0755, nullptr).has_value());
  const InodeId d = node.files->lookup(node.root, meta::kRootInode, "d")->inode;
  ASSERT_TRUE(node.files->make_symlink(node.root, d, "relative", "new1", nullptr).has_value());
  ASSERT_TRUE(node.files->make_symlink(node.root, d, "absolute", "/new2", nullptr).has_value());
  ASSERT_TRUE(node.files->make_symlink(node.root, d, "loop", "loop", nullptr).has_value());
  const OpenFlags create{.write = true, .create = true};
  EXPECT_TRUE(node.files->open_path(node.root, "/d/relative", create, 0644, {}, nullptr));
  EXPECT_TRUE(node.files->open_path(node.root, "/d/absolute", create, 0644, {}, nullptr));
  EXPECT_EQ(node.files->open_path(node.root, "/d/loop", create, 0644, {}, nullptr).error(),
            Status(Code::too_many_symlinks));
  EXPECT_TRUE(node.files->resolve(node.root, "/d/new1", false).has_value());
  EXPECT_TRUE(node.files->resolve(node.root, "/new2", false).has_value());
}

TEST(OpenTest, truncation_empties_the_file_for_everybody) {
  Node node;
  const FileRef old = node.open("/a");
  EXPECT_TRUE(node.write(old, 0, std::string(200'000, 'x')).has_value());
  const FileRef cut = node.open("/a", {.write = true, .truncate = true});
  EXPECT_EQ(length_of(*old), 0u);
  EXPECT_EQ(node.read(old, 0, 10), "");
  EXPECT_EQ(node.chunk_count(), 0u);
  EXPECT_TRUE(node.write(cut, 5, "y").has_value());
  EXPECT_EQ(node.read(old, 0, 10), std::string(5, '\0') + "y");
}

TEST(CloseTest, settles_open_files_and_refuses_later_calls) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  node.files->close();
  EXPECT_EQ(node.meta->attributes(inode_of(*file))->length, 5u);
  EXPECT_TRUE(node.meta->unsettled()->empty());
  EXPECT_EQ(node.files->lookup(node.root, meta::kRootInode, "a").error(), Status(Code::closed));
  EXPECT_EQ(node.write(file, 0, "x").error(), Status(Code::closed));
  EXPECT_EQ(node.files->sync_all(), Status(Code::closed));
}

TEST(CloseTest, a_reference_may_outlive_the_file_system) {
  Node node;
  FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  const std::weak_ptr<OpenFile> open = file;
  node.stop();
  EXPECT_EQ(length_of(*file), 5u);
  file = nullptr;
  EXPECT_TRUE(open.expired());
}

TEST(OpenTest, finds_a_file_at_a_name_whose_files_are_replaced_all_the_time) {
  Node node;
  EXPECT_TRUE(node.files->close_file(node.open("/name")).ok());
  bool replaced = false;
  engine::Thread replacing("replacing", [&] {
    for (int i = 0; i < 2000; ++i) {
      EXPECT_TRUE(node.files->close_file(node.open("/aside")).ok());
      EXPECT_TRUE(
          node.files
              ->rename(node.root, meta::kRootInode, "aside", meta::kRootInode, "name", {}, nullptr)
              .ok());
    }
    replaced = true;
  });
  while (!replaced) {
    const auto by_path = node.files->open_path(node.root, "/name", {}, 0, {}, nullptr);
    EXPECT_TRUE(by_path.has_value()) << by_path.error().name();
    const auto by_name = node.files->open_name(node.root, meta::kRootInode, "name", {}, 0, {}, true,
                                               nullptr, nullptr);
    EXPECT_TRUE(by_name.has_value()) << by_name.error().name();
  }
  replacing.join();
}

}  // namespace
}  // namespace penstock::client
