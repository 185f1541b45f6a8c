// Several file systems over the same names: one looks after what the others leave.
#include "node.h"

namespace penstock::client {
namespace {

class ElsewhereTest : public testing::Test {
 protected:
  void SetUp() override { open_other(); }
  void TearDown() override {
    if (other_ != nullptr) other_->close();
    other_ = nullptr;
  }
  void open_other() {
    FileSystemConfig config = node_.make_config();
    config.owns_recovery = false;
    auto opened = FileSystem::open(*node_.meta, std::move(config));
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    other_ = std::move(*opened);
  }
  InodeId make_closed(FileSystem& files, const std::string& path) {
    auto file =
        files.open_path(node_.root, path, {.write = true, .create = true}, 0644, {}, nullptr);
    EXPECT_TRUE(file.has_value());
    const InodeId id = inode_of(**file);
    std::string bytes(100'000, 'x');
    EXPECT_TRUE(files.write(*file, 0, Node::memory_of(bytes), false, nullptr, nullptr).has_value());
    EXPECT_TRUE(files.close_file(std::move(*file)).ok());
    return id;
  }
  bool is_removed() {
    return node_.world.run_until([&] { return node_.files->status().removed_waiting == 0; }) &&
           node_.chunk_count() == 0;
  }

  Node node_;
  std::unique_ptr<FileSystem> other_;
};

TEST_F(ElsewhereTest, who_does_not_own_recovery_settles_and_removes_nothing_of_others) {
  const FileRef open = node_.open("/open");
  EXPECT_TRUE(node_.write(open, 0, std::string(10'000, 'x')).has_value());
  const FileRef removed = node_.open("/removed");
  EXPECT_TRUE(node_.write(removed, 0, std::string(10'000, 'x')).has_value());
  EXPECT_TRUE(node_.files->unlink(node_.root, meta::kRootInode, "removed", nullptr).ok());
  const size_t chunks = node_.chunk_count();
  other_->close();
  open_other();
  EXPECT_EQ(node_.meta->unsettled()->size(), 2u);
  EXPECT_EQ(*other_->collect(100), 0u);
  node_.world.run_for(std::chrono::seconds(30));
  EXPECT_EQ(node_.chunk_count(), chunks);
  EXPECT_EQ(node_.read(removed, 0, 10), std::string(10, 'x'));
}

TEST_F(ElsewhereTest, what_others_remove_goes_when_its_owner_is_told) {
  // What a start wants to be looked at was.
  node_.world.run_for(std::chrono::seconds(30));
  const InodeId id = make_closed(*other_, "/a");
  EXPECT_EQ(node_.length(id), 100'000u);
  EXPECT_TRUE(other_->unlink(node_.root, meta::kRootInode, "a", nullptr).ok());
  EXPECT_EQ(other_->status().removed_waiting, 0u);
  node_.world.run_for(std::chrono::seconds(30));
  EXPECT_GT(node_.chunk_count(), 0u);
  node_.files->orphaned_elsewhere(id);
  EXPECT_TRUE(is_removed());
  EXPECT_TRUE(node_.meta->orphans(10, {})->empty());
}

TEST_F(ElsewhereTest, what_has_got_a_name_stays) {
  const InodeId id = *node_.meta->unused_id();
  ASSERT_TRUE(node_.meta->create_unnamed(node_.root, meta::kRootInode, 0644, id).has_value());
  node_.files->orphaned_elsewhere(id);
  ASSERT_TRUE(node_.meta->link(node_.root, id, meta::kRootInode, "a").has_value());
  node_.files->named_elsewhere(id);
  EXPECT_EQ(node_.files->status().removed_waiting, 0u);
  node_.world.run_for(std::chrono::seconds(30));
  EXPECT_TRUE(node_.files->attributes(id).has_value());
}

TEST_F(ElsewhereTest, what_somebody_else_uses_stays_until_that_is_over) {
  TearDown();
  node_.stop();
  bool is_used = true;
  std::vector<InodeId> asked;
  node_.is_in_use_elsewhere = [&](InodeId id) {
    asked.push_back(id);
    return is_used;
  };
  node_.start();
  const InodeId used = make_closed(*node_.files, "/a");
  EXPECT_TRUE(node_.files->unlink(node_.root, meta::kRootInode, "a", nullptr).ok());
  node_.world.run_for(std::chrono::seconds(30));
  EXPECT_GT(node_.chunk_count(), 0u);
  EXPECT_EQ(*node_.files->collect(100), 0u);
  EXPECT_FALSE(asked.empty());
  EXPECT_LT(asked.size(), 20u) << "it does not ask all the time";
  EXPECT_EQ(asked.front(), used);
  is_used = false;
  EXPECT_TRUE(is_removed());
}

TEST_F(ElsewhereTest, files_that_are_written_first_are_named_or_leave_nothing) {
  std::vector<NewFile> files(2);
  files[0].path = "/good";
  files[1].path = "/bad";
  ASSERT_TRUE(other_->place_files(node_.root, files).ok());
  std::string bytes(70'000, 'n');
  for (const NewFile& file : files) {
    ASSERT_TRUE(file.status.ok());
    EXPECT_TRUE(
        other_->write(file.file, 0, Node::memory_of(bytes), false, nullptr, nullptr).has_value());
  }
  files[1].status = Code::io_error;
  EXPECT_TRUE(other_->make_files(node_.root, files, nullptr).ok());
  const auto found = node_.files->resolve(node_.root, "/good", true);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->length, 70'000u);
  EXPECT_EQ(node_.read(node_.open("/good", {.read = true}), 0, 70'000), bytes);
  EXPECT_EQ(node_.chunk_count(), 2u);
}

}  // namespace
}  // namespace penstock::client
