// Mounts as people and their scripts make them: with the command, with mount(8), and again after
// the node was killed. Everything happens in a mount namespace of this process.
#include "mount_command.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>

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

// Makes files at a place, each time under a new name, until it is told to stop: what a program does
// that goes on while the node is started again.
class StubbornWriter {
 public:
  explicit StubbornWriter(std::string place)
      : place_(std::move(place)), thread_([this] { run(); }) {}
  ~StubbornWriter() { stop(); }
  // Returns how many it could not make.
  int stop() {
    stop_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
    return refused_;
  }

 private:
  void run() {
    for (int i = 0; !stop_.load(std::memory_order_relaxed); ++i) {
      const std::string path = fmt::format("{}/file{}", place_, i);
      const UniqueFd file(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
      refused_ += file ? 0 : 1;
    }
  }

  const std::string place_;
  // Relaxed: orders nothing.
  std::atomic<bool> stop_{false};
  int refused_ = 0;
  std::thread thread_;
};

constexpr unsigned kBeneath = 0x200;  // MOVE_MOUNT_BENEATH of linux/mount.h since Linux 6.5

bool kernel_mounts_beneath() {
  return ::move_mount(-1, "", -1, "", MOVE_MOUNT_F_EMPTY_PATH | kBeneath) != 0 && errno != EINVAL;
}

// For the calling thread and what it starts: move_mount() as Linux before 6.5 has it, which does
// not know that flag.
bool forget_how_to_mount_beneath() {
  const auto flags = static_cast<uint32_t>(offsetof(seccomp_data, args) + 4 * sizeof(uint64_t));
  std::array<sock_filter, 6> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_move_mount, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kBeneath, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(MountCommand, of_a_dead_node_comes_back_without_baring_the_directory_below) {
  const std::vector<std::string> start = {"up", store_, "--background", "--mount", place_};
  ASSERT_EQ(penstock(start).exit_code, 0);
  StubbornWriter writer(place_);
  for (int i = 0; i < 3; ++i) {
    kill_node();
    const Output again = penstock(start);
    ASSERT_EQ(again.exit_code, 0) << again.err;
  }
  EXPECT_GT(writer.stop(), 0) << "nothing was refused while the node was dead";
  const std::string table = mounted(place_);
  EXPECT_EQ(std::ranges::count(table, '\n'), kernel_mounts_beneath() ? 1 : 2) << table;
  EXPECT_TRUE(can_write());
  EXPECT_EQ(penstock({"down", store_}).exit_code, 0);
  EXPECT_EQ(mounted(place_), "");
  EXPECT_TRUE(fs::is_empty(place_));
}

TEST_F(MountCommand, of_a_dead_node_is_mounted_over_where_the_kernel_cannot_mount_beneath) {
  const std::vector<std::string> start = {"up", store_, "--background", "--mount", place_};
  ASSERT_EQ(penstock(start).exit_code, 0);
  StubbornWriter writer(place_);
  for (int i = 0; i < 3; ++i) {
    kill_node();
    std::thread([&] {
      ASSERT_TRUE(forget_how_to_mount_beneath()) << std::strerror(errno);
      const Output again = penstock(start);
      ASSERT_EQ(again.exit_code, 0) << again.err;
    }).join();
    const std::string table = mounted(place_);
    EXPECT_EQ(std::ranges::count(table, '\n'), 2) << "one dead, one ours:\n" << table;
  }
  writer.stop();
  EXPECT_TRUE(can_write());
  // Whoever unmounts it finds nothing dead there.
  ASSERT_EQ(penstock({"unmount", place_}).exit_code, 0);
  EXPECT_EQ(mounted(place_), "");
  EXPECT_TRUE(fs::is_empty(place_));
}

// What is dead goes with what was mounted over it, also where there is no node any more.
TEST_F(MountCommand, unmount_removes_all_that_dead_nodes_left) {
  const std::vector<std::string> start = {"up", store_, "--background", "--mount", place_};
  ASSERT_EQ(penstock(start).exit_code, 0);
  kill_node();
  std::thread([&] {
    ASSERT_TRUE(forget_how_to_mount_beneath()) << std::strerror(errno);
    ASSERT_EQ(penstock(start).exit_code, 0);
  }).join();
  kill_node();
  const std::string table = mounted(place_);
  EXPECT_EQ(std::ranges::count(table, '\n'), 2) << table;
  ASSERT_EQ(penstock({"unmount", place_}).exit_code, 0);
  EXPECT_EQ(mounted(place_), "");
}

// Whoever mounts through fusermount3 bares the directory, and an earlier Penstock did.
TEST_F(MountCommand, of_a_dead_node_comes_back_whatever_lies_in_the_directory_below) {
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
  fs::create_symlink(command_path(), program);
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
