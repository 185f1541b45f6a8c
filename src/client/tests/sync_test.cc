// What a sync makes durable, and which calls it costs.
#include "node.h"

namespace penstock::client {
namespace {

TEST(DataSyncTest, makes_bytes_durable_and_leaves_meta_alone_where_nothing_in_it_is_needed) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.files->sync_file(file, true).ok()) << "the name and the length, too";
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
  const FileRef other = node.open("/b");
  ASSERT_GT(node.kv_image.volatile_commits(), 0u);
  EXPECT_TRUE(node.write(file, 4096, std::string(4096, 'y')).has_value());
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_GT(node.kv_image.volatile_commits(), 0u) << "meta was synced for nothing";
  EXPECT_TRUE(node.write(file, 200'000, "z").has_value());
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u) << "a new length";
  EXPECT_TRUE(node.truncate(inode_of(*file), 300'000).ok());
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u) << "a new length without bytes";
  EXPECT_TRUE(node.write(file, 8192, std::string(4096, 'y')).has_value());
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u) << "the time of the last write";
  node.crash();
  for (const auto& target : node.targets) target->power_cut();
  node.start();
  EXPECT_EQ(node.length(inode_of(*file)), 300'000u);
  EXPECT_EQ(node.read(node.open("/a", {}), 0, 300'000),
            std::string(4096, 'x') + std::string(8192, 'y') + std::string(200'000 - 12'288, 'x') +
                "z" + std::string(99'999, '\0'));
}

TEST(DataSyncTest, asks_no_target_for_what_durable_writes_have_stored) {
  Node node;
  const FileRef file = node.open("/a");
  const auto syncs = [&] { return node.targets[0]->syncs + node.targets[1]->syncs; };
  const auto write = [&](uint64_t offset, uint64_t length, char byte, bool durable) {
    std::string bytes(length, byte);
    const engine::MemoryRef memory{reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
    const auto wrote = node.files->write(file, offset, memory, durable, nullptr, nullptr);
    EXPECT_EQ(wrote ? *wrote : 0, length);
  };
  write(0, 5000, 'a', false);
  write(5000, 3000, 'b', true);
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_EQ(syncs(), 0u);
  write(100, 10, 'c', false);
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(syncs(), 2u);
  // In the session a crash finds the end in the targets.
  const FileRef other = node.open("/b");
  write(8000, 100, 'd', true);
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(syncs(), 2u);
  EXPECT_GT(node.kv_image.volatile_commits(), 0u) << "meta was synced for nothing";
  // Now two targets have bytes, and each knows of its own.
  write(0, 10, 'e', false);
  write(70'000, 10, 'f', true);
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(syncs(), 4u);
  node.crash();
  for (const auto& target : node.targets) target->power_cut();
  node.start();
  std::string expected = std::string(5000, 'a') + std::string(3000, 'b') + std::string(100, 'd');
  expected.replace(100, 10, 10, 'c').replace(0, 10, 10, 'e').resize(70'000);
  EXPECT_TRUE(node.read(node.open("/a", {}), 0, 80'000) == expected + std::string(10, 'f'));
}

TEST(DataSyncTest, makes_a_name_durable_that_came_after_the_last_sync) {
  Node node;
  const FileRef file = *node.files->open_unnamed(
      node.root, meta::kRootInode, {.read = true, .write = true}, 0644, nullptr, nullptr);
  EXPECT_TRUE(node.write(file, 0, "bytes").has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_TRUE(
      node.files->link(node.root, inode_of(*file), meta::kRootInode, "a", nullptr).has_value());
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
  node.crash();
  for (const auto& target : node.targets) target->power_cut();
  node.start();
  EXPECT_EQ(node.read(node.open("/a", {}), 0, 100), "bytes");
}

TEST(SyncTest, asks_every_target_of_the_file_once_and_not_again_without_changes) {
  Node node(1, 3);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  for (const auto& target : node.targets) EXPECT_EQ(target->syncs, 1u);
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
  EXPECT_TRUE(node.files->sync_file(file).ok());
  for (const auto& target : node.targets) EXPECT_EQ(target->syncs, 1u);
  EXPECT_TRUE(node.write(file, 0, "y").has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  for (const auto& target : node.targets) EXPECT_EQ(target->syncs, 2u);
}

TEST(SyncTest, a_durable_write_makes_its_length_durable) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345", true).has_value());
  EXPECT_EQ(node.meta->attributes(inode_of(*file))->length, 5u);
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
  const uint64_t commits = node.kv_image.commits();
  EXPECT_TRUE(node.write(file, 0, "54321", true).has_value());
  EXPECT_EQ(node.kv_image.commits(), commits) << "an overwrite has no length to record";
}

TEST(SyncTest, only_the_first_durable_write_of_a_session_records_anything) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345", true).has_value());
  const uint64_t commits = node.kv_image.commits();
  EXPECT_TRUE(node.write(file, 5, std::string(100'000, 'x'), true).has_value());
  EXPECT_EQ(node.kv_image.commits(), commits);
  node.crash();
  node.start();
  EXPECT_EQ(node.length(inode_of(*file)), 100'005u) << "the target knows";
  // A cut begins another session, of which the disk does not know yet.
  const FileRef again = node.open("/a", {.write = true});
  EXPECT_TRUE(node.write(again, 0, "x", true).has_value());
  EXPECT_TRUE(node.truncate(inode_of(*again), 10).ok());
  EXPECT_GT(node.kv_image.volatile_commits(), 0u);
  EXPECT_TRUE(node.write(again, 10, "y", true).has_value());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
}

TEST(SyncTest, covers_extended_attributes_and_links) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_TRUE(
      node.files
          ->set_xattr(node.root, inode_of(*file), "user.a", "b", meta::XattrMode::any, nullptr)
          .ok());
  EXPECT_TRUE(
      node.files->link(node.root, inode_of(*file), meta::kRootInode, "b", nullptr).has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
}

TEST(SyncTest, everything_is_durable_after_sync_all) {
  Node node;
  const FileRef a = node.open("/a");
  const FileRef b = node.open("/b");
  EXPECT_TRUE(node.write(a, 0, "a").has_value());
  EXPECT_TRUE(node.write(b, 0, "bb").has_value());
  EXPECT_TRUE(node.files->sync_all().ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
  EXPECT_EQ(node.meta->attributes(inode_of(*b))->length, 2u);
  node.targets[0]->fault = [] { return Code::io_error; };
  EXPECT_EQ(node.files->sync_all(), Status(Code::io_error));
}

}  // namespace
}  // namespace penstock::client
