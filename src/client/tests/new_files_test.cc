// Files that get their content before their names.
#include "node.h"

namespace penstock::client {
namespace {

struct List {
  explicit List(std::vector<std::string> names) : paths(std::move(names)), files(paths.size()) {
    for (size_t i = 0; i < files.size(); ++i) {
      files[i].path = paths[i];
      files[i].mode = 0640;
    }
  }
  std::vector<std::string> paths;
  std::vector<NewFile> files;
};

TEST(NewFiles, are_found_when_they_are_whole) {
  Node node;
  List list({"/a", "/b", "/missing/c", "/a"});
  list.files[1].changes.uid = 7;
  list.files[1].changes.modified = meta::FileTime{-5, 6};
  ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
  EXPECT_EQ(list.files[2].status, Code::not_found);
  EXPECT_EQ(list.files[2].file, nullptr);
  ASSERT_TRUE(node.write(list.files[0].file, 0, "one").has_value());
  ASSERT_TRUE(node.write(list.files[1].file, 0, std::string(100'000, 'x')).has_value());
  ASSERT_TRUE(node.write(list.files[3].file, 0, "three").has_value());
  EXPECT_EQ(node.files->lookup(node.root, meta::kRootInode, "a").error(), Status(Code::not_found));
  EXPECT_TRUE(node.files->sync_all().ok()) << "what has no name has nothing to be recorded";
  ASSERT_TRUE(node.files->make_files(node.root, list.files, nullptr).ok());
  EXPECT_TRUE(list.files[0].status.ok());
  EXPECT_TRUE(list.files[1].status.ok());
  EXPECT_EQ(list.files[3].status, Code::already_exists) << "one name for one";
  EXPECT_EQ(node.files->status().open_files, 0u);

  const FileRef a = node.open("/a", {});
  EXPECT_EQ(node.read(a, 0, 10), "one");
  const auto b = node.files->lookup(node.root, meta::kRootInode, "b");
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(b->length, 100'000u);
  EXPECT_EQ(b->uid, 7u);
  EXPECT_EQ(b->mode, 0640u);
  EXPECT_EQ(b->modified, (meta::FileTime{-5, 6}));
  EXPECT_EQ(node.chunk_count(), 3u) << "of the second and only the first /a";
}

TEST(NewFiles, leave_nothing_when_their_maker_gives_them_up) {
  Node node;
  List list({"/a", "/b"});
  ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
  ASSERT_TRUE(node.write(list.files[0].file, 0, "one").has_value());
  ASSERT_TRUE(node.write(list.files[1].file, 0, "two").has_value());
  list.files[0].status = Code::io_error;
  ASSERT_TRUE(node.files->make_files(node.root, list.files, nullptr).ok());
  EXPECT_EQ(list.files[0].status, Code::io_error);
  EXPECT_EQ(node.files->lookup(node.root, meta::kRootInode, "a").error(), Status(Code::not_found));
  EXPECT_TRUE(node.files->lookup(node.root, meta::kRootInode, "b").has_value());
  EXPECT_EQ(node.chunk_count(), 1u);
}

TEST(NewFiles, can_be_written_and_synced_like_any_other_afterwards) {
  Node node;
  List list({"/a"});
  ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
  ASSERT_TRUE(node.write(list.files[0].file, 0, "one").has_value());
  ASSERT_TRUE(node.files->make_files(node.root, list.files, nullptr).ok());
  const FileRef a = node.open("/a", {.write = true});
  ASSERT_TRUE(node.write(a, 3, "two").has_value());
  ASSERT_TRUE(node.files->sync_file(a).ok());
  const InodeId id = inode_of(*a);
  node.crash();
  node.start();
  EXPECT_EQ(node.length(id), 6u);
}

TEST(NewFiles, leave_no_bytes_without_a_name_after_a_crash) {
  Node node;
  List list({"/a", "/b"});
  ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
  ASSERT_TRUE(node.write(list.files[0].file, 0, "one").has_value());
  // Others make far more files meanwhile than are looked at for themselves.
  for (int i = 0; i < 9'000; ++i) {
    const std::string name = "/f" + std::to_string(i);
    ASSERT_TRUE(node.files->close_file(node.open(name)).ok());
  }
  ASSERT_EQ(node.chunk_count(), 1u);
  for (NewFile& file : list.files) file.file.reset();
  node.crash();
  node.start();
  EXPECT_EQ(node.chunk_count(), 0u);
}

}  // namespace
}  // namespace penstock::client
