// Times of access.
#include "node.h"

#include "penstock/inodes.h"

namespace penstock::client {
namespace {

using std::chrono::milliseconds;

class AccessTest : public testing::Test {
 protected:
  meta::FileTime accessed() { return node.files->attributes(id)->accessed; }
  meta::FileTime recorded() { return node.meta->attributes(id)->accessed; }
  void set(meta::FileTime accessed, meta::FileTime modified) {
    meta::SetAttributes changes;
    changes.accessed = accessed;
    changes.modified = modified;
    EXPECT_TRUE(node.files->set_attributes(node.root, id, changes, nullptr).has_value());
  }

  Node node;
  const FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
};

TEST_F(AccessTest, the_first_read_after_a_change_is_noted_and_recorded_later) {
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  const meta::FileTime before = accessed();
  node.world.run_for(milliseconds(5));
  EXPECT_EQ(node.read(file, 0, 1), "x");
  const meta::FileTime first = accessed();
  EXPECT_GT(first, before);
  EXPECT_EQ(recorded(), before);
  node.world.run_for(milliseconds(5));
  EXPECT_EQ(node.read(file, 0, 1), "x");
  EXPECT_EQ(accessed(), first) << "not every read";
  EXPECT_EQ(node.files->lookup(node.root, meta::kRootInode, "a")->accessed, first);
  EXPECT_TRUE(node.files->sync_all().ok());
  EXPECT_EQ(recorded(), first);
  EXPECT_TRUE(node.write(file, 0, "y").has_value());
  node.world.run_for(milliseconds(5));
  EXPECT_EQ(node.read(file, 0, 1), "y");
  EXPECT_GT(accessed(), first);
}

TEST_F(AccessTest, a_time_that_is_set_wins_over_one_that_is_noted) {
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  EXPECT_EQ(node.read(file, 0, 1), "x");
  set(meta::FileTime(77, 0), meta::FileTime(5, 0));
  EXPECT_EQ(accessed(), meta::FileTime(77, 0));
  EXPECT_TRUE(node.files->sync_all().ok());
  EXPECT_EQ(recorded(), meta::FileTime(77, 0));
}

TEST_F(AccessTest, options_and_the_flag_of_the_inode_decide) {
  using Mode = AccessTimes::Mode;
  const FileRef silent = node.open("/a", {.accesses = Mode::none});
  const FileRef strict = node.open("/a", {.accesses = Mode::strict});
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  const meta::FileTime before = accessed();
  node.world.run_for(milliseconds(5));
  EXPECT_EQ(node.read(silent, 0, 1), "x");
  EXPECT_EQ(accessed(), before);
  EXPECT_EQ(node.read(strict, 0, 1), "x");
  const meta::FileTime first = accessed();
  EXPECT_GT(first, before);
  node.world.run_for(milliseconds(5));
  EXPECT_EQ(node.read(strict, 0, 1), "x");
  EXPECT_GT(accessed(), first);
  meta::SetAttributes flags;
  flags.flags = meta::kInodeNoAtime;
  EXPECT_TRUE(node.files->set_attributes(node.root, id, flags, nullptr).has_value());
  const meta::FileTime last = accessed();
  node.world.run_for(milliseconds(5));
  EXPECT_TRUE(node.write(file, 0, "y").has_value());
  EXPECT_EQ(node.read(strict, 0, 1), "y");
  EXPECT_EQ(node.read(file, 0, 1), "y");
  EXPECT_EQ(accessed(), last);
}

TEST_F(AccessTest, of_directories_only_when_asked_for) {
  const InodeId root = meta::kRootInode;
  const meta::FileTime before = node.files->attributes(root)->accessed;
  node.world.run_for(milliseconds(5));
  node.files->note_access(root, {.directories = false});
  node.files->note_access(root, {.mode = AccessTimes::Mode::none});
  EXPECT_EQ(node.files->attributes(root)->accessed, before);
  node.files->note_access(root, {});
  const meta::FileTime first = node.files->attributes(root)->accessed;
  EXPECT_GT(first, before);
  node.world.run_for(milliseconds(5));
  node.files->note_access(root, {});
  EXPECT_EQ(node.files->attributes(root)->accessed, first);
  Attributes attributes;
  attributes.modified = attributes.changed = meta::FileTime(1000, 0);
  attributes.accessed = meta::FileTime(1000, 1);
  constexpr int64_t kDay = 86'400;
  EXPECT_FALSE(inodes::access_is_due(attributes, meta::FileTime(999 + kDay, 0)));
  EXPECT_TRUE(inodes::access_is_due(attributes, meta::FileTime(1000 + kDay, 0))) << "one a day";
}

}  // namespace
}  // namespace penstock::client
