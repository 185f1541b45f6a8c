// Making and ending mounts: what is refused and how, and what happens to those who are still
// inside.
#include "mounted_node.h"
#include "twin.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <fstream>
#include <pwd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace penstock::posix {
namespace {

class MountsTest : public PosixTest {
 protected:
  void SetUp() override {
    PosixTest::SetUp();
    if (IsSkipped()) return;
    place_ = node().scratch() + "/place";
    ::mkdir(place_.c_str(), 0755);
  }
  void TearDown() override {
    if (!place_.empty()) remove_all(place_);
  }
  const std::string& place() const { return place_; }

  // Whoever stops it waits for its users so long.
  Outcome<std::unique_ptr<fuse::Mount>> mount_at(
      const std::string& path, bool allow_other = false,
      std::chrono::milliseconds stop_deadline = test::kPatience) {
    fuse::MountConfig config;
    config.mount_point = path;
    config.source = "/some/store, with a comma\\";
    config.options.allow_other = allow_other;
    config.stop_deadline = stop_deadline;
    return fuse::Mount::start(node().files(), nullptr, config);
  }
  // A refusal must name the place and say each of `words`.
  void expect_refused(const std::string& path, Code code, const std::vector<std::string>& words) {
    const auto mount = mount_at(path);
    ASSERT_FALSE(mount) << path;
    EXPECT_EQ(mount.error().status.code(), code) << mount.error().message;
    EXPECT_NE(mount.error().message.find(path), std::string::npos) << mount.error().message;
    for (const std::string& word : words) {
      EXPECT_NE(mount.error().message.find(word), std::string::npos) << mount.error().message;
    }
  }
  static std::string mount_line(const std::string& path) {
    std::ifstream file("/proc/self/mountinfo");
    for (std::string line; std::getline(file, line);) {
      if (line.find(" " + path + " ") != std::string::npos) return line;
    }
    return "";
  }

 private:
  std::string place_;
};

TEST_F(MountsTest, a_mount_shows_its_type_and_its_store) {
  const auto mount = mount_at(place());
  ASSERT_TRUE(mount) << mount.error().message;
  const std::string line = mount_line(place());
  EXPECT_NE(line.find(" fuse.penstock "), std::string::npos) << line;
  EXPECT_NE(line.find("/some/store,\\040with\\040a\\040comma\\134"), std::string::npos) << line;
  struct stat stat {};
  ASSERT_EQ(::stat(place().c_str(), &stat), 0);
  EXPECT_EQ(stat.st_dev, (*mount)->device());
  EXPECT_EQ((*mount)->path(), place());
  EXPECT_TRUE((*mount)->alive());
  EXPECT_EQ((*mount)->stop(), fuse::StopOutcome::unmounted);
  EXPECT_FALSE((*mount)->alive());
  EXPECT_EQ(mount_line(place()), "");
  EXPECT_EQ((*mount)->stop(), fuse::StopOutcome::unmounted);
}

TEST_F(MountsTest, places_that_cannot_be_mounted_on_are_refused_with_a_remedy) {
  const std::string missing = place() + "/missing";
  expect_refused(missing, Code::not_found, {"no such directory", "mkdir -p " + missing});
  const std::string file = place() + "/file";
  ASSERT_TRUE(UniqueFd(::open(file.c_str(), O_CREAT | O_WRONLY, 0644)));
  expect_refused(file, Code::not_directory, {"not a directory"});
  expect_refused(file + "/below", Code::not_directory, {"Not a directory"});
  expect_refused(place(), Code::not_empty, {"not empty", "choose an empty directory"});
  expect_refused(node().mount(), Code::in_use,
                 {"already a mount point", "penstock unmount " + node().mount()});
  expect_refused("/proc", Code::in_use, {"already a mount point", "of type proc"});
}

TEST_F(MountsTest, a_mount_whose_process_was_killed_is_named_and_can_be_removed) {
  const pid_t child = ::fork();
  if (child == 0) {
    // A connection that nobody serves any more: what is left of a killed process.
    const int device = ::open("/dev/fuse", O_RDWR);
    const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", device);
    ::_exit(::mount("dead", place().c_str(), "fuse.penstock", 0, options.c_str()) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) != 0) GTEST_SKIP() << "only root can leave a dead mount behind";
  expect_refused(place(), Code::in_use, {"process has died", "penstock unmount " + place()});
  const auto removed = fuse::unmount(place(), false);
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(mount_line(place()), "");
  const auto again = fuse::unmount(place(), false);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("no penstock mount is there"), std::string::npos);
}

TEST_F(MountsTest, unmounting_from_outside_ends_the_mount) {
  auto mount = mount_at(place());
  ASSERT_TRUE(mount) << mount.error().message;
  const auto removed = fuse::unmount(place(), false);
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_TRUE(test::eventually([&] { return !(*mount)->alive(); }));
  EXPECT_EQ((*mount)->stop(), fuse::StopOutcome::unmounted);
}

TEST_F(MountsTest, a_busy_mount_is_detached_after_the_deadline_and_its_users_are_cut_off) {
  auto mount = mount_at(place(), false, std::chrono::milliseconds(200));
  ASSERT_TRUE(mount) << mount.error().message;
  const UniqueFd file(::open((place() + "/busy").c_str(), O_RDWR | O_CREAT, 0644));
  ASSERT_TRUE(file);
  ASSERT_EQ(::write(file.get(), "kept", 4), 4);
  const auto busy = fuse::unmount(place(), false);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().status.code(), Code::in_use);
  EXPECT_NE(busy.error().message.find("fuser -m"), std::string::npos) << busy.error().message;
  EXPECT_EQ((*mount)->stop(), fuse::StopOutcome::detached);
  EXPECT_EQ(mount_line(place()), "");
  char byte = 0;
  // The page may be the kernel's still; what needs the node fails and does not hang.
  EXPECT_EQ(::fsync(file.get()), -1);
  EXPECT_EQ(errno, ENOTCONN);
  EXPECT_EQ(::pread(file.get(), &byte, 1, 1 << 20), -1);
  // What was written is there, through the other mount; and no file counts as open.
  const UniqueFd again(::open((node().mount() + "/busy").c_str(), O_RDONLY));
  EXPECT_EQ(read_all(again.get()).data, "kept");
  ASSERT_EQ(::unlink((node().mount() + "/busy").c_str()), 0);
}

TEST_F(MountsTest, stopping_writes_back_what_is_mapped) {
  auto mount = mount_at(place());
  ASSERT_TRUE(mount) << mount.error().message;
  const std::string script = fmt::format(
      "import mmap,os; f=os.open('{}/mapped',os.O_RDWR|os.O_CREAT); os.ftruncate(f,100000); "
      "m=mmap.mmap(f,100000); m[99999]=65; os.kill(os.getpid(),9)",
      place());
  (void)!::system(("python3 -c \"" + script + "\" 2>/dev/null").c_str());
  EXPECT_EQ((*mount)->stop(), fuse::StopOutcome::unmounted);
  const UniqueFd file(::open((node().mount() + "/mapped").c_str(), O_RDONLY));
  if (!file) GTEST_SKIP() << "no python3";
  char byte = 0;
  ASSERT_EQ(::pread(file.get(), &byte, 1, 99'999), 1);
  EXPECT_EQ(byte, 65);
  ::unlink((node().mount() + "/mapped").c_str());
}

TEST_F(MountsTest, a_read_only_mount_refuses_changes) {
  fuse::MountConfig config;
  config.mount_point = place();
  config.source = "/store";
  config.options.read_only = true;
  const auto mount = fuse::Mount::start(node().files(), nullptr, config);
  ASSERT_TRUE(mount) << mount.error().message;
  EXPECT_EQ(::mkdir((place() + "/d").c_str(), 0755), -1);
  EXPECT_EQ(errno, EROFS);
  // As 3FS's tools remove a name; the kernel does not know that it is a change.
  struct {
    uint64_t parent;
    char name[NAME_MAX + 1];
    bool recursive;
  } wanted{};
  struct stat facts {};
  const UniqueFd top(::open(place().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::fstat(top.get(), &facts), 0);
  wanted.parent = facts.st_ino;
  std::strcpy(wanted.name, "d");
  EXPECT_EQ(::ioctl(top.get(), _IOW('h', 15, wanted), &wanted), -1);
  EXPECT_EQ(errno, EROFS);
}

TEST_F(MountsTest, two_mounts_of_one_node_see_each_others_changes_at_once) {
  const auto mount = mount_at(place());
  ASSERT_TRUE(mount) << mount.error().message;
  const std::string here = directory("shared");
  const std::string there = place() + "/shared";
  const std::string names[] = {here + "/f", there + "/f"};
  for (int i = 0; i < 60; i++) {
    const UniqueFd writer(::open(names[i % 2].c_str(), O_RDWR | O_CREAT, 0644));
    ASSERT_TRUE(writer);
    const std::string content(static_cast<size_t>(60 - i) * 100, static_cast<char>('a' + i % 26));
    ASSERT_EQ(::ftruncate(writer.get(), 0), 0);
    ASSERT_EQ(::write(writer.get(), content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
    const UniqueFd reader(::open(names[(i + 1) % 2].c_str(), O_RDONLY));
    ASSERT_EQ(read_all(reader.get()).data, content) << i;
  }
}

TEST_F(MountsTest, two_mounts_that_write_the_same_pages_go_on) {
  // Each kernel holds its page while the other is to drop its own: a deadline resolves it.
  const auto mount = mount_at(place());
  ASSERT_TRUE(mount) << mount.error().message;
  const std::string here = directory("contended");
  const std::string names[] = {here + "/f", place() + "/contended/f"};
  const UniqueFd made(::open(names[0].c_str(), O_RDWR | O_CREAT, 0644));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  std::vector<std::thread> writers;
  for (const std::string& name : names) {
    writers.emplace_back([&name, until] {
      const UniqueFd fd(::open(name.c_str(), O_RDWR));
      ASSERT_TRUE(fd);
      std::vector<char> page(4096, 'x');
      while (std::chrono::steady_clock::now() < until) {
        ASSERT_EQ(::pwrite(fd.get(), page.data(), page.size(), 0), 4096);
        ASSERT_EQ(::pread(fd.get(), page.data(), page.size(), 0), 4096);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
}

TEST_F(MountsTest, an_ordinary_user_mounts_with_fusermount3) {
  if (::geteuid() != 0) GTEST_SKIP() << "the other tests of this program do it then";
  if (::access("/usr/bin/fusermount3", X_OK) != 0) GTEST_SKIP() << "no fusermount3";
  // Somebody with a name, whom fusermount3 wants to know.
  const passwd* nobody = ::getpwnam("nobody");
  if (!nobody) GTEST_SKIP() << "nobody is not known here";
  const uid_t uid = nobody->pw_uid;
  const gid_t gid = nobody->pw_gid;
  ASSERT_EQ(::chown(place().c_str(), uid, gid), 0);
  // In a child of that user; what it finds comes back as its exit status.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(gid) != 0 || ::setuid(uid) != 0) ::_exit(10);
    const auto mount = mount_at(place());
    if (!mount) {
      fmt::print(stderr, "{}\n", mount.error().message);
      const Code code = mount.error().status.code();
      ::_exit(code == Code::not_permitted || code == Code::access_denied ? 77 : 11);
    }
    struct stat stat {};
    if (::stat(place().c_str(), &stat) != 0) ::_exit(12);
    if ((*mount)->stop() != fuse::StopOutcome::unmounted) ::_exit(13);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "ordinary users may not mount on this machine";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(mount_line(place()), "");
}

TEST_F(MountsTest, an_ordinary_user_lets_others_in_only_where_the_machine_allows_it) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs to become somebody else";
  std::ifstream conf("/etc/fuse.conf");
  for (std::string line; std::getline(conf, line);) {
    if (line == "user_allow_other") GTEST_SKIP() << "this machine allows it";
  }
  ASSERT_EQ(::chown(place().c_str(), 1001, 1001), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(1001) != 0 || ::setuid(1001) != 0) ::_exit(10);
    const auto mount = mount_at(place(), true);
    if (mount) ::_exit(11);
    const std::string& message = mount.error().message;
    const bool clear = message.find("user_allow_other") != std::string::npos ||
                       message.find("fusermount3") != std::string::npos;
    ::_exit(clear ? 0 : 12);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace penstock::posix
