// Lengths: as they grow, as they are set, and the holes below them.
#include "node.h"

namespace penstock::client {
namespace {

using std::chrono::milliseconds;

Credentials as_user(uint32_t uid) {
  Credentials credentials;
  credentials.uid = uid;
  credentials.gid = uid;
  return credentials;
}

TEST(LengthTest, is_seen_by_others_before_it_is_settled) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  EXPECT_EQ(node.meta->attributes(inode_of(*file))->length, 0u);
  EXPECT_EQ(node.files->lookup(node.root, meta::kRootInode, "a")->length, 5u);
  EXPECT_EQ(node.files->resolve(node.root, "/a", true)->length, 5u);
  EXPECT_EQ(node.length(inode_of(*file)), 5u);
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.files->close_file(file).ok());
  EXPECT_EQ(node.meta->attributes(id)->length, 5u);
  EXPECT_TRUE(node.meta->unsettled()->empty());
}

TEST(LengthTest, is_settled_in_the_background_when_the_last_reference_is_dropped) {
  Node node;
  FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  file = nullptr;
  EXPECT_TRUE(node.files->collect(10).has_value());
  EXPECT_EQ(node.meta->attributes(id)->length, 5u);
  EXPECT_EQ(node.files->status().open_files, 0u);
}

TEST(LengthTest, modification_time_follows_writes_and_explicit_times) {
  Node node;
  const FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  const auto created = node.files->attributes(id)->modified;
  node.world.run_for(milliseconds(5));
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  const auto written = node.files->attributes(id)->modified;
  EXPECT_GT(written, created);
  meta::SetAttributes changes;
  changes.modified = engine::WallTime{12345};
  EXPECT_TRUE(node.files->set_attributes(node.root, id, changes, nullptr).has_value());
  EXPECT_EQ(node.files->attributes(id)->modified, engine::WallTime{12345});
  EXPECT_TRUE(node.files->close_file(file).ok());
  EXPECT_EQ(node.files->attributes(id)->modified, engine::WallTime{12345});
}

TEST(CutTest, removes_exactly_what_lies_behind_the_new_end) {
  Node node;
  const FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, std::string(5 * 65536, 'x')).has_value());
  EXPECT_TRUE(node.truncate(id, 2 * 65536 + 100).ok());
  EXPECT_EQ(node.chunk_count(), 3u);
  EXPECT_EQ(node.length(id), 2u * 65536 + 100);
  EXPECT_TRUE(node.truncate(id, 5 * 65536).ok());
  EXPECT_EQ(node.read(file, 2 * 65536, 3 * 65536),
            std::string(100, 'x') + std::string(3 * 65536 - 100, '\0'));
  EXPECT_TRUE(node.truncate(id, 65536).ok());
  EXPECT_EQ(node.chunk_count(), 1u);
  EXPECT_TRUE(node.truncate(id, 0).ok());
  EXPECT_EQ(node.chunk_count(), 0u);
  EXPECT_EQ(node.truncate(id, limits::kFileBytesMax + 1), Status(Code::too_large));
  EXPECT_EQ(node.truncate(meta::kRootInode, 0), Status(Code::is_directory));
}

TEST(CutTest, works_on_a_file_that_nobody_has_open) {
  Node node;
  FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, std::string(1000, 'x')).has_value());
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  EXPECT_TRUE(node.truncate(id, 10).ok());
  EXPECT_TRUE(node.truncate(id, 20).ok());
  EXPECT_EQ(node.length(id), 20u);
  EXPECT_EQ(node.read(node.open("/a"), 0, 100), std::string(10, 'x') + std::string(10, '\0'));
}

TEST(CutTest, needs_the_right_to_write) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  meta::SetAttributes changes;
  changes.length = 0;
  EXPECT_EQ(node.files->set_attributes(as_user(7), inode_of(*file), changes, nullptr).error(),
            Status(Code::access_denied));
  EXPECT_EQ(node.read(file, 0, 10), "12345");
}

TEST(PunchTest, makes_zeros_and_keeps_the_length) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.files->punch(file, 60'000, 100'000, nullptr, nullptr).ok());
  EXPECT_TRUE(node.files->punch(file, 190'000, 1'000'000, nullptr, nullptr).ok());
  EXPECT_EQ(node.read(file, 0, 300'000), std::string(60'000, 'x') + std::string(100'000, '\0') +
                                             std::string(30'000, 'x') + std::string(10'000, '\0'));
}

TEST(SeekTest, walks_over_no_hole_behind_the_last_byte) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(5000, 'x')).has_value());
  constexpr uint64_t kEnd = uint64_t{1} << 36;  // a million chunks
  EXPECT_TRUE(node.truncate(inode_of(*file), kEnd).ok());
  const auto operations = [&] { return node.targets[0]->operations + node.targets[1]->operations; };
  const uint64_t before = operations();
  EXPECT_EQ(*node.files->seek(file, 0, false), 0u);
  EXPECT_EQ(*node.files->seek(file, 0, true), 8192u);
  EXPECT_EQ(*node.files->seek(file, 100'000, true), 100'000u);
  EXPECT_EQ(node.files->seek(file, 8192, false).error().code(), Code::no_data);
  EXPECT_LT(operations() - before, 50u);
}

TEST(CutTest, is_durable_in_meta_and_targets_when_the_file_was_synced) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_TRUE(node.truncate(inode_of(*file), 70'000).ok());
  node.crash();
  for (const auto& target : node.targets) target->power_cut();
  EXPECT_EQ(node.chunk_count(), 2u);
  node.start();
  EXPECT_EQ(node.length(inode_of(*file)), 70'000u);
  EXPECT_EQ(node.read(node.open("/a", {}), 0, 200'000), std::string(70'000, 'x'));
}

TEST(CutTest, costs_no_sync_when_nothing_was_promised) {
  Node node;
  const FileRef other = node.open("/other");
  FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.truncate(inode_of(*file), 10).ok());
  const uint64_t pending = node.kv_image.volatile_commits();
  EXPECT_GT(pending, 0u);
  // Another life of the open file cannot tell.
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  file = node.open("/a", {.write = true});
  EXPECT_TRUE(node.truncate(inode_of(*file), 5).ok());
  EXPECT_LT(node.kv_image.volatile_commits(), pending);
}

}  // namespace
}  // namespace penstock::client
