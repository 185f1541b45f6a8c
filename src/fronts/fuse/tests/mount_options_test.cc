#include <gtest/gtest.h>

#include "penstock/fuse.h"

namespace penstock::fuse {
namespace {

using AccessMode = client::AccessTimes::Mode;

MountOptions parsed(const char* list, const MountOptions& base = {}) {
  const auto result = parse_mount_options(list, base);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? result->options : MountOptions{};
}

TEST(MountOptions, nothing_said_is_what_a_mount_of_ours_has) {
  EXPECT_EQ(to_text(parsed("")), "rw,nosuid,nodev,relatime");
  EXPECT_EQ(parsed("defaults"), MountOptions{});
}

TEST(MountOptions, each_word_sets_what_it_says) {
  EXPECT_EQ(to_text(parsed("ro,suid,dev,noexec,noatime,nodiratime,sync,dirsync,allow_other")),
            "ro,noexec,noatime,nodiratime,sync,dirsync,allow_other");
  EXPECT_EQ(parsed("strictatime").access_times.mode, AccessMode::strict);
  EXPECT_EQ(parsed("default_permissions"), MountOptions{});
}

TEST(MountOptions, the_type_is_ours_or_that_of_3fs) {
  EXPECT_TRUE(parsed("type=hf3fs").like_3fs);
  EXPECT_FALSE(parsed("type=hf3fs,type=penstock").like_3fs);
  EXPECT_TRUE(parsed("ro", parsed("type=hf3fs")).like_3fs);
  EXPECT_FALSE(parse_mount_options("type=ext4", {}));
  EXPECT_TRUE(is_ours({"/mnt", "fuse.penstock", "/store", 1}));
  EXPECT_TRUE(is_ours({"/mnt", "fuse.hf3fs", "/store", 1}));
  EXPECT_FALSE(is_ours({"/mnt", "fuse.hf3fs", "hf3fs.cluster", 1}));
  EXPECT_FALSE(is_ours({"/mnt", "fuse.sshfs", "/store", 1}));
}

TEST(MountOptions, the_last_of_two_that_disagree_counts) {
  EXPECT_FALSE(parsed("ro,rw").read_only);
  EXPECT_TRUE(parsed("rw,ro").read_only);
  EXPECT_EQ(parsed("noatime,relatime").access_times.mode, AccessMode::relative);
  EXPECT_TRUE(parsed("user,exec").programs);
  EXPECT_FALSE(parsed("exec,user").programs);
}

TEST(MountOptions, a_remount_changes_what_it_names_only) {
  const MountOptions before = parsed("noatime,noexec,suid");
  const auto changed = parse_mount_options("remount,ro", before);
  ASSERT_TRUE(changed);
  EXPECT_TRUE(changed->remount);
  EXPECT_EQ(to_text(changed->options), "ro,nodev,noexec,noatime");
  EXPECT_FALSE(parse_mount_options("ro", before)->remount);
}

TEST(MountOptions, words_for_others_are_let_through) {
  EXPECT_EQ(parsed("x-systemd.automount,X-mount.mkdir,comment=ours,_netdev,nofail,auto,noauto,"
                   "nouser,user=somebody,user_id=0,group_id=0,max_read=1048576"),
            MountOptions{});
}

TEST(MountOptions, an_unknown_word_is_named) {
  for (const char* word : {"frobnicate", "ro=1", "RO", "x_y", "uid=5"}) {
    const auto result = parse_mount_options(std::string("rw,") + word + ",noatime", {});
    ASSERT_FALSE(result) << word;
    EXPECT_NE(result.error().message.find("'" + std::string(word) + "'"), std::string::npos)
        << result.error().message;
  }
}

// What a mount has, said as options, gives the same.
TEST(MountOptions, text_and_options_agree) {
  MountOptions base;
  base.set_ids = base.devices = true;
  for (const char* list : {"", "ro", "nosuid", "nodev,noexec", "noatime,nodiratime", "strictatime",
                           "sync,allow_other", "dirsync", "type=hf3fs"}) {
    const MountOptions options = parsed(list, base);
    EXPECT_EQ(parsed(to_text(options).c_str(), base), options) << list;
  }
}

}  // namespace
}  // namespace penstock::fuse
