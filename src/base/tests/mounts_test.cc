#include <gtest/gtest.h>
#include <string>
#include <sys/sysmacros.h>

#include "penstock/base.h"

namespace penstock {
namespace {

MountEntry mount(std::string point, std::string type, unsigned minor_number) {
  return {std::move(point), std::move(type), "", makedev(0, minor_number)};
}

TEST(Mounts, line_is_parsed_when_it_has_optional_words) {
  const auto entry = parse_mount(
      "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - fuse.penstock /store rw,user_id=0");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->point, "/mnt2");
  EXPECT_EQ(entry->type, "fuse.penstock");
  EXPECT_EQ(entry->source, "/store");
  EXPECT_EQ(entry->device, makedev(98, 0));
}

TEST(Mounts, line_is_parsed_when_it_has_no_optional_words) {
  const auto entry = parse_mount("25 1 0:51 / /mnt/a rw - fuse.hf3fs none rw");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->point, "/mnt/a");
  EXPECT_EQ(entry->type, "fuse.hf3fs");
}

TEST(Mounts, line_is_refused_when_it_is_something_else) {
  for (const char* line : {"", " ", "36 35", "36 35 980 / /mnt rw - ext4 x rw",
                           "36 35 9x:0 / /mnt rw - ext4 x rw", "36 35 9:0 / mnt rw - ext4 x rw",
                           "36 35 9:0 / /mnt rw master:1", "36 35 9: / /mnt rw - ext4 x rw"}) {
    EXPECT_FALSE(parse_mount(line)) << line;
  }
}

TEST(Mounts, escapes_become_their_bytes) {
  const auto point_of = [](const std::string& point) {
    const auto entry = parse_mount("36 35 9:0 / " + point + " rw - fuse.penstock /a\\134b rw");
    EXPECT_TRUE(entry);
    EXPECT_EQ(entry ? entry->source : "", "/a\\b");
    return entry ? entry->point : "";
  };
  EXPECT_EQ(point_of("/a\\040b\\011c\\134d"), "/a b\tc\\d");
  EXPECT_EQ(point_of("/\\04"), "/\\04");
  EXPECT_EQ(point_of("/\\999x"), "/\\999x");
  EXPECT_EQ(point_of("/\\303\\244"), "/\xc3\xa4");
}

TEST(Mounts, longest_point_wins_by_whole_components) {
  const std::vector<MountEntry> mounts = {mount("/", "ext4", 1), mount("/mnt", "fuse.penstock", 2),
                                          mount("/mnt/inner", "tmpfs", 3)};
  EXPECT_EQ(mount_of_path(mounts, "/mnt/a/b")->point, "/mnt");
  EXPECT_EQ(mount_of_path(mounts, "/mnt")->point, "/mnt");
  EXPECT_EQ(mount_of_path(mounts, "/mnt/inner/x")->point, "/mnt/inner");
  EXPECT_EQ(mount_of_path(mounts, "/mnt/innermost")->point, "/mnt");
  EXPECT_EQ(mount_of_path(mounts, "/mntx")->point, "/");
  EXPECT_EQ(mount_of_path({mount("/a", "ext4", 1)}, "/b"), nullptr);
}

TEST(Mounts, latest_mount_wins_when_one_hides_another) {
  const std::vector<MountEntry> mounts = {mount("/mnt", "fuse.penstock", 2),
                                          mount("/mnt", "tmpfs", 3)};
  EXPECT_EQ(mount_of_path(mounts, "/mnt/a")->type, "tmpfs");
  EXPECT_EQ(mount_of_device(mounts, makedev(0, 2))->type, "fuse.penstock");
  EXPECT_EQ(mount_of_device(mounts, makedev(0, 9)), nullptr);
  EXPECT_EQ(mount_at(mounts, "/mnt")->type, "tmpfs");
  EXPECT_EQ(mount_at(mounts, "/mnt/a"), nullptr);
}

// Not of the root: in a chroot it may be no mount.
TEST(Mounts, kernel_tells_of_proc) {
  const auto mounts = read_mounts();
  ASSERT_NE(mount_of_path(mounts, "/proc/self"), nullptr);
  EXPECT_EQ(mount_of_path(mounts, "/proc/self")->type, "proc");
}

}  // namespace
}  // namespace penstock
