#include <gtest/gtest.h>

#include "penstock/connection.h"

namespace penstock::connection {
namespace {

constexpr const char* kMounts =
    "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "30 21 0:40 / /mnt/a rw,nosuid shared:5 master:2 - fuse.penstock /data/store rw,user_id=0\n"
    "31 21 0:41 / /mnt/with\\040blank rw - fuse.penstock /data/my\\134store rw\n"
    "32 30 0:42 / /mnt/a/inner rw - tmpfs tmpfs rw\n"
    "33 21 0:43 / /mnt/ab rw - fuse.sshfs host: rw\n"
    "short line\n";

TEST(StoreOfMount, finds_the_mount_that_holds_a_path) {
  EXPECT_EQ(store_of_mount("/mnt/a", parse_mounts(kMounts)), "/data/store");
  EXPECT_EQ(store_of_mount("/mnt/a/x/y", parse_mounts(kMounts)), "/data/store");
  EXPECT_EQ(store_of_mount("/mnt/with blank/x", parse_mounts(kMounts)), "/data/my\\store");
}

TEST(StoreOfMount, is_empty_elsewhere) {
  EXPECT_EQ(store_of_mount("/", parse_mounts(kMounts)), "");
  EXPECT_EQ(store_of_mount("/mnt", parse_mounts(kMounts)), "");
  EXPECT_EQ(store_of_mount("/mnt/ab/x", parse_mounts(kMounts)), "")
      << "another mount with a longer name";
  EXPECT_EQ(store_of_mount("/mnt/a/inner/x", parse_mounts(kMounts)), "")
      << "mounted inside of ours";
  EXPECT_EQ(store_of_mount("/mnt/a", parse_mounts("")), "");
}

TEST(StoreOfMount, takes_the_topmost_of_two_at_one_place) {
  const std::string twice = std::string(kMounts) + "40 21 0:50 / /mnt/a rw - ext4 /dev/sdb rw\n";
  EXPECT_EQ(store_of_mount("/mnt/a/x", parse_mounts(twice)), "");
}

}  // namespace
}  // namespace penstock::connection
