// Removed files and their chunks.
#include "node.h"

namespace penstock::client {
namespace {

TEST(UnlinkTest, keeps_the_bytes_of_an_open_file_until_it_is_closed) {
  Node node;
  FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "a", nullptr).ok());
  EXPECT_EQ(*node.files->collect(100), 0u);
  EXPECT_EQ(node.read(file, 199'999, 10), "x");
  EXPECT_TRUE(node.write(file, 200'000, "more").has_value());
  EXPECT_EQ(node.files->attributes(id)->links, 0u);
  EXPECT_EQ(node.length(id), 200'004u);
  EXPECT_EQ(node.files->status().removed_waiting, 1u);
  // One more open of what has no name, as through /proc/self/fd.
  FileRef again = *node.files->open_inode(node.root, id, {}, true, nullptr);
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  EXPECT_EQ(*node.files->collect(100), 0u);
  EXPECT_EQ(node.read(again, 200'000, 10), "more");
  EXPECT_TRUE(node.files->close_file(std::move(again)).ok());
  EXPECT_EQ(node.files->open_inode(node.root, id, {}, true, nullptr).error(), Status(Code::stale));
  EXPECT_EQ(*node.files->collect(100), 1u);
  EXPECT_EQ(node.chunk_count(), 0u);
  EXPECT_EQ(node.files->attributes(id).error(), Status(Code::not_found));
  EXPECT_EQ(node.files->status().removed_waiting, 0u);
}

TEST(UnlinkTest, removed_files_are_collected_by_the_next_life) {
  Node node;
  EXPECT_TRUE(node.write(node.open("/a"), 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "a", nullptr).ok());
  node.crash();
  node.start();
  EXPECT_GT(node.chunk_count(), 0u);
  EXPECT_EQ(node.files->status().removed_waiting, 1u);
  EXPECT_EQ(*node.files->collect(100), 1u);
  EXPECT_EQ(node.chunk_count(), 0u);
}

TEST(UnlinkTest, collects_many_in_bounded_steps_and_passes_by_those_in_use) {
  Node node;
  std::vector<FileRef> in_use;
  std::vector<FileRef> free;
  for (int i = 0; i < 700; ++i) {
    FileRef file = node.open("/" + std::to_string(i));
    EXPECT_TRUE(node.write(file, 0, "x").has_value());
    EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, std::to_string(i), nullptr).ok());
    (i % 7 == 0 ? in_use : free).push_back(std::move(file));
  }
  free.clear();
  // The collector's own thread may take some at the same time.
  EXPECT_LE(*node.files->collect(150), 150u);
  const auto waiting = [&] { return node.files->status().removed_waiting; };
  EXPECT_TRUE(node.world.run_until([&] { return waiting() == 100; }));
  EXPECT_EQ(*node.files->collect(10'000), 0u);
  EXPECT_EQ(node.chunk_count(), 100u);
  in_use.clear();
  EXPECT_TRUE(node.world.run_until([&] { return waiting() == 0; }));
  EXPECT_EQ(node.chunk_count(), 0u);
}

// The collector does not look at the first again each time.
TEST(UnlinkTest, finds_what_is_removed_before_the_place_where_it_ended) {
  Node node;
  FileRef old = node.open("/old");
  EXPECT_TRUE(node.write(old, 0, "x").has_value());
  for (int round = 0; round < 3; ++round) {
    FileRef file = node.open("/new");
    EXPECT_TRUE(node.write(file, 0, "x").has_value());
    EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "new", nullptr).ok());
    EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
    EXPECT_EQ(*node.files->collect(100), 1u);
    EXPECT_EQ(*node.files->collect(100), 0u);
    if (round == 0) {
      EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "old", nullptr).ok());
    }
  }
  EXPECT_EQ(node.chunk_count(), 1u);
  EXPECT_EQ(*node.files->collect(100), 0u) << "it is open";
  EXPECT_TRUE(node.files->close_file(std::move(old)).ok());
  EXPECT_EQ(*node.files->collect(100), 1u);
  EXPECT_EQ(node.chunk_count(), 0u);
}

// Found without a name, and then named and closed before anything is removed.
TEST(UnlinkTest, a_write_that_meets_a_full_disk_gets_what_removed_files_have_held) {
  Node node(1, 1);
  FileRef removed = node.open("/a");
  const InodeId id = inode_of(*removed);
  EXPECT_TRUE(node.write(removed, 0, "takes all the room").has_value());
  const FileRef file = node.open("/b");
  store::FakeTarget& target = *node.targets[0];
  bool full = false;
  target.fault = [&] { return std::exchange(full, false) ? Status(Code::no_space) : Status(); };
  full = true;
  EXPECT_EQ(node.write(file, 0, "x").error(), Status(Code::no_space));
  EXPECT_TRUE(node.files->close_file(std::move(removed)).ok());
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "a", nullptr).ok());
  full = true;
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  EXPECT_EQ(target.chunks.count({id, 0}), 0u);
  EXPECT_EQ(node.files->status().removed_waiting, 0u);
}

TEST(UnlinkTest, a_file_that_gets_its_first_name_while_others_are_collected_keeps_its_bytes) {
  Node node;
  FileRef file = *node.files->open_unnamed(node.root, meta::kRootInode,
                                           {.read = true, .write = true}, 0644, nullptr, nullptr);
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, "kept").has_value());
  node.kv->during_sync = [&] {
    EXPECT_TRUE(node.files->link(node.root, id, meta::kRootInode, "a", nullptr).has_value());
    EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  };
  EXPECT_EQ(*node.files->collect(100), 0u);
  EXPECT_EQ(node.kv->during_sync, nullptr) << "nothing came in between";
  EXPECT_EQ(node.read(node.open("/a", {}), 0, 100), "kept");
}

TEST(UnlinkTest, a_replaced_file_goes_like_an_unlinked_one) {
  Node node;
  const FileRef a = node.open("/a");
  FileRef b = node.open("/b");
  EXPECT_TRUE(node.write(a, 0, "a").has_value());
  EXPECT_TRUE(node.write(b, 0, "b").has_value());
  EXPECT_TRUE(
      node.files->rename(node.root, meta::kRootInode, "a", meta::kRootInode, "b", {}, nullptr)
          .ok());
  EXPECT_EQ(node.read(b, 0, 1), "b");
  EXPECT_EQ(node.read(node.open("/b", {}), 0, 1), "a");
  EXPECT_TRUE(node.files->close_file(std::move(b)).ok());
  EXPECT_EQ(*node.files->collect(100), 1u);
  EXPECT_EQ(node.chunk_count(), 1u);
}

}  // namespace
}  // namespace penstock::client
