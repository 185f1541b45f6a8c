// What the kernel of one node was told of names and files, and another node has changed since:
// names that it moves itself, and who owns what it has open.
#include "cluster_mounted.h"

#include <cstdio>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "penstock/base.h"

namespace penstock::test {
namespace {

constexpr uid_t kUser = 1001;
constexpr uid_t kOther = 1002;

class ClusterKernels : public MountedCluster {
 protected:
  ClusterKernels() : MountedCluster({"a", "b"}) {}
  void SetUp() override {
    MountedCluster::SetUp();
    if (IsSkipped()) return;
    up("first", {"--listen", free_address(), "--mount", place("a"), "--allow-other"});
    join("second", {"--mount", place("b"), "--allow-other", "--cache", "64M"});
  }
  std::string a(const std::string& name) const { return place("a") + "/" + name; }
  std::string b(const std::string& name) const { return place("b") + "/" + name; }

  // Until the second node keeps the name, and its kernel has been given it.
  void look_at(const std::string& name) const {
    for (int i = 0; i < 20; ++i) {
      struct stat found {};
      EXPECT_EQ(::stat(b(name).c_str(), &found), 0) << name;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  // What asks for no attributes: whether the kernel has the name.
  int opened_as_directory(const std::string& path) const {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_DIRECTORY));
    return file ? 0 : errno;
  }
};

TEST_F(ClusterKernels, forget_names_that_they_have_moved) {
  for (int round = 0; round < 8; ++round) {
    const std::string from = "from." + std::to_string(round), to = "to." + std::to_string(round);
    ASSERT_EQ(::mkdir(a(from).c_str(), 0755), 0);
    ASSERT_EQ(::mkdir(a(to).c_str(), 0755), 0);
    write_file(a(from + "/name"), "x");
    look_at(from + "/name");
    // In the same directory, and into one that nobody has looked into.
    const std::string moved = round % 2 == 0 ? from + "/moved" : to + "/moved";
    ASSERT_EQ(::rename(b(from + "/name").c_str(), b(moved).c_str()), 0);
    ASSERT_EQ(::unlink(a(moved).c_str()), 0);
    EXPECT_EQ(opened_as_directory(b(moved)), ENOENT) << moved;
    // As with two that are exchanged.
    write_file(a(from + "/one"), "x");
    ASSERT_EQ(::mkdir(a(to + "/other").c_str(), 0755), 0);
    look_at(from + "/one");
    look_at(to + "/other");
    ASSERT_EQ(::renameat2(AT_FDCWD, b(from + "/one").c_str(), AT_FDCWD, b(to + "/other").c_str(),
                          RENAME_EXCHANGE),
              0);
    ASSERT_EQ(::unlink(a(to + "/other").c_str()), 0);
    ASSERT_EQ(::rmdir(a(from + "/one").c_str()), 0);
    EXPECT_EQ(opened_as_directory(b(to + "/other")), ENOENT) << round;
    EXPECT_EQ(opened_as_directory(b(from + "/one")), ENOENT) << round;
  }
}

// In a process of that user, with these capabilities. Which step was not as expected; 0: none.
int as_user(uid_t user, uint32_t capabilities, const std::function<int()>& steps) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_KEEPCAPS, 1);
    if (::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(100);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {{capabilities, capabilities, 0}, {0, 0, 0}};
    if (::syscall(SYS_capset, &header, data) != 0) ::_exit(101);
    ::_exit(steps());
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(ClusterKernels, take_nobody_for_the_owner_who_was_it) {
  write_file(a("file"), "x");
  ASSERT_EQ(::chown(a("file").c_str(), kUser, kUser), 0);
  const auto is_refused = [](int result) { return result != 0 && errno == EPERM; };
  const UniqueFd file(::open(b("file").c_str(), O_RDWR));
  ASSERT_TRUE(file);
  const int open_file = file.get();
  struct stat found {};
  EXPECT_EQ(as_user(kUser, 0,
                    [&] {
                      if (::fstat(open_file, &found) != 0) return 1;
                      return ::fchmod(open_file, 0644) == 0 ? 0 : 2;
                    }),
            0);

  // Nobody looks at it through the second node before its former owner tries.
  ASSERT_EQ(::chown(a("file").c_str(), kOther, kOther), 0);
  EXPECT_EQ(as_user(kUser, 0,
                    [&] {
                      const timespec times[2] = {{1, 0}, {1, 0}};
                      if (!is_refused(::fchmod(open_file, 0666))) return 1;
                      if (!is_refused(::futimens(open_file, times))) return 2;
                      return is_refused(::fchown(open_file, kUser, kUser)) ? 0 : 3;
                    }),
            0);
  ASSERT_EQ(::stat(a("file").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0644u);
  EXPECT_EQ(found.st_uid, kOther);
  EXPECT_EQ(as_user(kOther, 0, [&] { return ::chmod(b("file").c_str(), 0640) == 0 ? 0 : 1; }), 0);
  // Who may do it to files of anybody does.
  EXPECT_EQ(as_user(kUser, 1u << CAP_FOWNER | 1u << CAP_FSETID,
                    [&] { return ::fchmod(open_file, 02755) == 0 ? 0 : 1; }),
            0);
  ASSERT_EQ(::stat(a("file").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 02755u);
}

// The kernel would keep the bit of a group that the owner was in when it was told last.
TEST_F(ClusterKernels, let_nobody_run_files_as_another_group) {
  write_file(a("file"), "x");
  ASSERT_EQ(::chown(a("file").c_str(), kUser, kUser), 0);
  const UniqueFd file(::open(b("file").c_str(), O_RDWR));
  ASSERT_TRUE(file);
  const int open_file = file.get();
  struct stat found {};
  ASSERT_EQ(::fstat(open_file, &found), 0);
  ASSERT_EQ(::chown(a("file").c_str(), -1, kOther), 0);
  EXPECT_EQ(as_user(kUser, 0, [&] { return ::fchmod(open_file, 02755) == 0 ? 0 : 1; }), 0);
  ASSERT_EQ(::stat(a("file").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0755u);
}

}  // namespace
}  // namespace penstock::test
