// Small files that were just written: what is kept, and for how long.
#include <gtest/gtest.h>
#include <string>

#include "penstock/inodes.h"

namespace penstock::inodes {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class RecentBytesTest : public testing::Test {
 protected:
  // As a write does it that brings these bytes to the targets.
  void write(Inode& inode, const std::string& text) {
    const std::optional<uint64_t> before = RecentBytes::quiet_changes(inode);
    ASSERT_TRUE(before.has_value());
    change(inode);
    recent.keep(inode, *before, bytes_of(text));
  }
  void change(Inode& inode) {
    Change one;
    observers.begin(one, inode, {0, 1});
    observers.end(one);
  }
  bool is_kept(const Inode& inode, const std::string& text) {
    std::string into(text.size() - 1, '?');  // not to its end, where it is forgotten
    const bool found = recent.read(inode, 0, std::as_writable_bytes(std::span(into)));
    EXPECT_TRUE(!found || into == text.substr(0, into.size()));
    return found;
  }

  Observers observers;
  RecentBytes& recent = observers.recent();
};

TEST_F(RecentBytesTest, a_change_that_begins_forgets_and_one_under_way_keeps_from_keeping) {
  Inode inode(InodeId{7});
  write(inode, "bytes");
  EXPECT_TRUE(is_kept(inode, "bytes"));
  Change one;
  observers.begin(one, inode, {0, 1});
  EXPECT_FALSE(is_kept(inode, "bytes"));
  EXPECT_FALSE(RecentBytes::quiet_changes(inode).has_value());
  observers.end(one);
  const std::optional<uint64_t> before = RecentBytes::quiet_changes(inode);
  ASSERT_TRUE(before.has_value());
  change(inode);
  change(inode);
  recent.keep(inode, *before, bytes_of("bytes"));
  EXPECT_FALSE(is_kept(inode, "bytes")) << "not the only change";
  write(inode, "other");
  EXPECT_TRUE(is_kept(inode, "other"));
}

TEST_F(RecentBytesTest, one_that_begins_before_the_bytes_are_kept_is_noticed) {
  Inode inode(InodeId{7});
  const std::optional<uint64_t> before = RecentBytes::quiet_changes(inode);
  change(inode);
  Change other;
  observers.begin(other, inode, {0, 1});
  recent.keep(inode, *before, bytes_of("bytes"));
  EXPECT_FALSE(is_kept(inode, "bytes"));
  observers.end(other);
  EXPECT_EQ(recent.bytes(), 0u);
}

// The object of an inode goes with its last user, what was kept stays, and changes are seen.
TEST_F(RecentBytesTest, another_object_of_the_inode_finds_and_changes_it) {
  {
    Inode inode(InodeId{7});
    write(inode, "bytes");
  }
  Inode inode(InodeId{7});
  EXPECT_TRUE(is_kept(inode, "bytes"));
  change(inode);
  EXPECT_FALSE(is_kept(inode, "bytes"));
}

TEST_F(RecentBytesTest, what_is_read_to_its_end_is_forgotten) {
  Inode inode(InodeId{7});
  write(inode, "bytes");
  std::string into(3, '?');
  EXPECT_FALSE(recent.read(inode, 3, std::as_writable_bytes(std::span(into)))) << "beyond it";
  EXPECT_TRUE(recent.read(inode, 2, std::as_writable_bytes(std::span(into))));
  EXPECT_EQ(into, "tes");
  recent.read(inode, 2, std::as_writable_bytes(std::span(into)));
  EXPECT_EQ(recent.bytes(), 0u);
}

TEST_F(RecentBytesTest, the_oldest_go) {
  constexpr uint64_t kMost = limits::kRecentBytesMax / limits::kRecentFileBytes;
  const std::string text(limits::kRecentFileBytes, 't');
  for (uint64_t i = 1; i <= kMost + 3; ++i) {
    Inode inode(InodeId{i});
    write(inode, text);
  }
  EXPECT_EQ(recent.bytes(), limits::kRecentBytesMax);
  EXPECT_FALSE(is_kept(Inode(InodeId{3}), text));
  EXPECT_TRUE(is_kept(Inode(InodeId{4}), text));
}

}  // namespace
}  // namespace penstock::inodes
