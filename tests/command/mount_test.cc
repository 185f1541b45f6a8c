// Mounts as people and their scripts make them: with the command, with mount(8), and again after
// the node was killed. Everything happens in a mount namespace of this process.
#include "mount_command.h"

#include <cstring>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "penstock/base.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// The line of /proc/self/mountinfo about the mount at `path`; all of them if there are several.
std::string mounted(const std::string& path) {
  std::ifstream file("/proc/self/mountinfo");
  std::string found;
  for (std::string line; std::getline(file, line);) {
    if (line.find(" " + path + " ") != std::string::npos) found += line + "\n";
  }
  return found;
}

TEST_F(MountCommand, takes_options_and_a_remount_changes_them) {
  ASSERT_EQ(penstock({"up", store_, "--background"}).exit_code, 0);
  const Output mount = penstock({"mount", store_, place_, "-o", "noexec,noatime", "--allow-other"});
  ASSERT_EQ(mount.exit_code, 0) << mount.err;
  EXPECT_THAT(mount.out, HasSubstr("rw,nosuid,nodev,noexec,noatime,allow_other"));
  EXPECT_THAT(mounted(place_), HasSubstr(" rw,nosuid,nodev,noexec,noatime "));
  EXPECT_THAT(mounted(place_), HasSubstr("allow_other"));
  EXPECT_TRUE(can_write());

  ASSERT_EQ(penstock({"mount", store_, place_, "-o", "remount,ro,exec"}).exit_code, 0);
  EXPECT_THAT(mounted(place_), HasSubstr(" ro,nosuid,nodev,noatime "));
  EXPECT_FALSE(can_write());
  EXPECT_EQ(errno, EROFS);

  const Output back = penstock({"mount", store_, place_, "-o", "remount,rw,suid,dev,sync"});
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(mounted(place_), HasSubstr(" rw,noatime "));
  EXPECT_THAT(mounted(place_), HasSubstr("sync"));
  EXPECT_TRUE(can_write());
  fs::create_directory(place_ + "/made durably");

  // Not while a file is open for writing.
  {
    const UniqueFd open_file(::open((place_ + "/written").c_str(), O_WRONLY));
    const Output busy = penstock({"mount", store_, place_, "-o", "remount,ro"});
    EXPECT_EQ(busy.exit_code, 1);
    EXPECT_THAT(busy.err, HasSubstr("open for writing"));
  }
  const Output unknown = penstock({"mount", store_, place_, "-o", "remount,frobnicate"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'frobnicate'"));
}

TEST_F(MountCommand, a_mount_may_have_the_type_of_3fs) {
  const std::vector<std::string> start = {
      "up", store_, "--background", "--mount", place_, "--mount-options", "type=hf3fs"};
  ASSERT_EQ(penstock(start).exit_code, 0);
  EXPECT_THAT(mounted(place_), HasSubstr(" fuse.hf3fs " + store_ + " "));
  EXPECT_TRUE(can_write());
  write_file(scratch_ / "source", "content");
  const Output imported = penstock({"import", scratch_ / "source", place_ + "/imported"});
  EXPECT_EQ(imported.exit_code, 0) << imported.err;
  // A change leaves the type as it is, and another type is refused.
  const Output remount = penstock({"mount", store_, place_, "-o", "remount,ro"});
  EXPECT_EQ(remount.exit_code, 0) << remount.err;
  EXPECT_THAT(mounted(place_), HasSubstr(" fuse.hf3fs "));
  const Output other = penstock({"mount", store_, place_, "-o", "remount,type=penstock"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("its type cannot be changed"));
  // A dead one is taken over, whichever type it is to have.
  kill_node();
  ASSERT_EQ(penstock(start).exit_code, 0);
  EXPECT_TRUE(can_write());
  kill_node();
  ASSERT_EQ(penstock({"up", store_, "--background", "--mount", place_}).exit_code, 0);
  EXPECT_THAT(mounted(place_), HasSubstr(" fuse.penstock "));
  EXPECT_EQ(penstock({"unmount", place_}).exit_code, 0);
  ASSERT_EQ(penstock({"mount", store_, place_, "-o", "type=hf3fs"}).exit_code, 0);
  EXPECT_EQ(penstock({"unmount", place_}).exit_code, 0);
  EXPECT_EQ(mounted(place_), "");
}

// A program that goes on while the node is started again finds the bare directory for a moment.
TEST_F(MountCommand, of_a_dead_node_comes_back_whatever_was_written_to_the_bare_directory) {
  const std::vector<std::string> start = {"up", store_, "--background", "--mount", place_};
  ASSERT_EQ(penstock(start).exit_code, 0);
  EXPECT_TRUE(can_write());
  // What lies below a mount is seen where what is above is mounted once more.
  const std::string below = scratch_ / "below";
  fs::create_directory(below);
  const std::string parent = fs::path(place_).parent_path();
  ASSERT_EQ(::mount(parent.c_str(), below.c_str(), nullptr, MS_BIND, nullptr), 0);
  write_file(below + "/" + fs::path(place_).filename().string() + "/stray", "content");
  ASSERT_EQ(::umount2(below.c_str(), MNT_DETACH), 0);
  kill_node();
  const Output again = penstock(start);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_FALSE(fs::exists(place_ + "/stray"));
  EXPECT_TRUE(can_write());
  EXPECT_THAT(read_file(store_ + "/agent.log"), HasSubstr("while nothing was mounted"));
  EXPECT_EQ(penstock({"down", store_}).exit_code, 0);
  EXPECT_EQ(read_file(place_ + "/stray"), "content");
  // Nobody takes over a directory in use otherwise.
  EXPECT_EQ(penstock(start).exit_code, 1);
}

TEST_F(MountCommand, up_takes_mount_options) {
  const Output up =
      penstock({"up", store_, "--background", "--mount", place_, "--mount-options", "ro,noexec"});
  ASSERT_EQ(up.exit_code, 0) << up.err;
  EXPECT_THAT(mounted(place_), HasSubstr(" ro,nosuid,nodev,noexec,relatime "));
  EXPECT_FALSE(can_write());
  EXPECT_EQ(penstock({"up", scratch_ / "new", "--mount-options", "rw,huge"}).exit_code, 2);
  EXPECT_FALSE(fs::exists(scratch_ / "new"));
}

TEST_F(MountCommand, mount_8_starts_the_node_and_changes_the_mount) {
  const Output mount =
      run({"/usr/bin/mount", "-t", "penstock", store_, place_, "-o", "noatime,x-ours=1,nofail"});
  ASSERT_EQ(mount.exit_code, 0) << mount.err;
  EXPECT_THAT(mounted(place_), HasSubstr(" rw,noatime "));
  EXPECT_THAT(mounted(place_), HasSubstr("fuse.penstock"));
  EXPECT_TRUE(can_write());
  const Output remount = run({"/usr/bin/mount", "-o", "remount,ro", place_});
  ASSERT_EQ(remount.exit_code, 0) << remount.err;
  EXPECT_THAT(mounted(place_), HasSubstr(" ro,noatime "));
  EXPECT_FALSE(can_write());
  ASSERT_EQ(run({"/usr/bin/mount", "-o", "remount,rw", place_}).exit_code, 0);
  EXPECT_TRUE(can_write());
  ASSERT_EQ(run({"/usr/bin/umount", place_}).exit_code, 0);
  EXPECT_EQ(mounted(place_), "");
  // The node is there still, and takes the next one.
  ASSERT_EQ(run({"/usr/bin/mount", "-t", "penstock", store_, place_, "-o", "nosuid"}).exit_code, 0);
  EXPECT_THAT(mounted(place_), HasSubstr(" rw,nosuid,relatime "));

  const Output unknown =
      run({"/usr/bin/mount", "-t", "penstock", store_, place_, "-o", "frobnicate"});
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_THAT(unknown.err, HasSubstr("'frobnicate'"));
  const Output missing =
      run({"/usr/bin/mount", "-t", "penstock", scratch_.path(), scratch_.path()});
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.err, HasSubstr("is not a store"));
}

TEST_F(MountCommand, mount_8_gives_the_type_of_3fs_to_who_asks_for_it) {
  const Output mount = run({"/usr/bin/mount", "-t", "fuse.hf3fs", store_, place_, "-o", "noatime"});
  ASSERT_EQ(mount.exit_code, 0) << mount.err;
  EXPECT_THAT(mounted(place_), HasSubstr(" fuse.hf3fs " + store_ + " "));
  EXPECT_THAT(mounted(place_), HasSubstr(" rw,noatime "));
  EXPECT_TRUE(can_write());
  const Output remount = run({"/usr/bin/mount", "-o", "remount,ro", place_});
  ASSERT_EQ(remount.exit_code, 0) << remount.err;
  EXPECT_THAT(mounted(place_), HasSubstr(" fuse.hf3fs "));
  EXPECT_FALSE(can_write());
  ASSERT_EQ(run({"/usr/bin/umount", place_}).exit_code, 0);
  // What is said of the type counts, and a line of /etc/fstab does as well.
  ASSERT_EQ(
      run({"/usr/bin/mount", "-t", "fuse.hf3fs", store_, place_, "-o", "type=penstock"}).exit_code,
      0);
  EXPECT_THAT(mounted(place_), HasSubstr(" fuse.penstock "));
  ASSERT_EQ(run({"/usr/bin/umount", place_}).exit_code, 0);
  const std::string table = scratch_ / "fstab";
  write_file(table, store_ + " " + place_ + " fuse.hf3fs defaults,nofail 0 0\n");
  ASSERT_EQ(run({"/usr/bin/mount", "--fstab", table, place_}).exit_code, 0);
  EXPECT_THAT(mounted(place_), HasSubstr(" fuse.hf3fs "));
  ASSERT_EQ(run({"/usr/bin/umount", place_}).exit_code, 0);
  // Without the link, libfuse's helper looks for a program of the type's name, and runs it so.
  const std::string program = scratch_ / "hf3fs";
  fs::create_symlink(PENSTOCK_COMMAND, program);
  ASSERT_EQ(run({program, store_, place_, "-o", "rw"}).exit_code, 0);
  EXPECT_THAT(mounted(place_), HasSubstr(" fuse.hf3fs "));
}

TEST_F(MountCommand, a_line_of_fstab_is_enough) {
  const std::string table = scratch_ / "fstab";
  write_file(table, store_ + " " + place_ + " penstock defaults,noexec,_netdev,x-systemd.y 0 0\n");
  const Output mount = run({"/usr/bin/mount", "--fstab", table, place_});
  ASSERT_EQ(mount.exit_code, 0) << mount.err;
  EXPECT_THAT(mounted(place_), HasSubstr(" rw,noexec,relatime "));
}

TEST_F(MountCommand, a_plain_restart_after_a_kill_brings_the_mount_back) {
  const std::vector<std::string> start = {"up", store_, "--background", "--mount", place_};
  ASSERT_EQ(penstock(start).exit_code, 0);
  {
    const UniqueFd file(::open((place_ + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    ASSERT_EQ(::write(file.get(), "content", 7), 7);
    ASSERT_EQ(::fsync(file.get()), 0);
  }
  // So that the kernel knows the root's attributes, and answers from what it knows.
  EXPECT_TRUE(fs::is_directory(place_));
  for (int round = 0; round < 2; ++round) {
    kill_node();
    EXPECT_THAT(mounted(place_), HasSubstr("fuse.penstock"));
    const Output again = penstock(start);
    ASSERT_EQ(again.exit_code, 0) << again.err;
    EXPECT_EQ(read_file(place_ + "/file"), "content");
    const std::string lines = mounted(place_);
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
  }
  // One that is served is not taken over.
  const Output live = penstock({"mount", store_, place_});
  EXPECT_EQ(live.exit_code, 1);
  EXPECT_THAT(live.err, HasSubstr("already a mount point"));
}

TEST_F(MountCommand, a_dead_mount_of_another_store_is_left_alone) {
  const std::string other = scratch_ / "other";
  ASSERT_EQ(penstock({"up", store_, "--background", "--mount", place_}).exit_code, 0);
  kill_node();
  const Output up = penstock({"up", other, "--background", "--mount", place_});
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.err, HasSubstr(place_));
  EXPECT_THAT(up.err, HasSubstr("penstock unmount"));
  EXPECT_THAT(mounted(place_), HasSubstr(store_));
  penstock({"down", other});
}

}  // namespace
}  // namespace penstock::test
