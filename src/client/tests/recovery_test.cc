// What the next life finds after a crash.
#include "node.h"

namespace penstock::client {
namespace {

TEST(RecoveryTest, finds_the_length_of_files_whose_writer_died) {
  Node node;
  const FileRef grown = node.open("/grown");
  EXPECT_TRUE(node.write(grown, 0, std::string(150'000, 'x')).has_value());
  const FileRef extended = node.open("/extended");
  EXPECT_TRUE(node.write(extended, 0, "x").has_value());
  EXPECT_TRUE(node.truncate(inode_of(*extended), 500'000).ok());
  node.crash();
  node.start();
  EXPECT_EQ(node.length(inode_of(*grown)), 150'000u);
  EXPECT_EQ(node.length(inode_of(*extended)), 500'000u);
  EXPECT_TRUE(node.meta->unsettled()->empty());
}

TEST(RecoveryTest, believes_a_cut_and_not_the_target_that_had_no_time_to_make_it) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, std::string(150'000, 'x')).has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  node.targets[0]->fault = [] { return Code::io_error; };
  EXPECT_EQ(node.truncate(id, 10), Status(Code::io_error));
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u) << "the new length is durable first";
  node.crash();
  node.targets[0]->fault = [] { return Code::ok; };
  node.start();
  EXPECT_EQ(node.length(id), 10u);
  // Nor does what the target still holds show later.
  const FileRef again = node.open("/a", {.write = true});
  EXPECT_TRUE(node.write(again, 100, "z").has_value());
  EXPECT_EQ(node.read(again, 0, 1000), std::string(10, 'x') + std::string(90, '\0') + "z");
}

TEST(RecoveryTest, trusts_the_target_again_after_a_cut) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(150'000, 'x'), true).has_value());
  EXPECT_TRUE(node.truncate(inode_of(*file), 10).ok());
  EXPECT_EQ(node.meta->unsettled()->size(), 1u);
  EXPECT_TRUE(node.write(file, 10, "y").has_value());
  node.crash();
  node.start();
  EXPECT_EQ(node.length(inode_of(*file)), 11u);
}

TEST(RecoveryTest, removes_chunks_of_files_whose_creation_was_lost) {
  Node node(1, 2);
  EXPECT_TRUE(node.files->close_file(node.open("/old")).ok());
  const FileRef first = node.open("/first");
  EXPECT_TRUE(node.write(first, 0, std::string(100'000, 'x')).has_value());
  EXPECT_TRUE(node.files->sync_file(first).ok());
  const size_t before = node.chunk_count();
  const FileRef lost = node.open("/lost");
  const InodeId id = inode_of(*lost);
  EXPECT_TRUE(node.write(lost, 0, std::string(100'000, 'x')).has_value());
  node.crash();
  // As if a power cut had taken the creation back, but not the data.
  node.start();
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "lost", nullptr).ok());
  EXPECT_TRUE(node.meta->forget(id).ok());
  EXPECT_GT(node.chunk_count(), before);
  node.crash();
  node.start();
  EXPECT_EQ(node.chunk_count(), before);
  EXPECT_EQ(node.read(node.open("/first", {}), 0, 200'000), std::string(100'000, 'x'));
}

TEST(RecoveryTest, does_not_begin_while_nobody_says_what_was_written) {
  Node node(1, 2);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(100'000, 'x')).has_value());
  node.crash();
  node.targets[0]->fault = [] { return Code::peer_gone; };
  const Outcome<void> started = node.try_start();
  ASSERT_FALSE(started.has_value()) << "chunks of lost files would stay for ever";
  EXPECT_EQ(started.error().status.code(), Code::peer_gone);
  node.crash();
  node.targets[0]->fault = [] { return Code::ok; };
  node.start();
}

}  // namespace
}  // namespace penstock::client
