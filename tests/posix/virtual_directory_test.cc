// 3fs-virt: where USRBIO's programs register their memory, and what it must not do to the rest.
#include "mounted_node.h"
#include "twin.h"

#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <functional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::posix {
namespace {

class VirtualDirectoryTest : public PosixTest {
 protected:
  void SetUp() override {
    PosixTest::SetUp();
    if (IsSkipped()) return;
    top_ = node().mount() + "/3fs-virt";
    memory_ = fmt::format("/dev/shm/penstock-posix-{}", ::getpid());
  }
  void TearDown() override {
    if (memory_.empty()) return;
    ::unlink(link().c_str());
    ::unlink(memory_.c_str());
  }
  const std::string& top() const { return top_; }
  const std::string& memory() const { return memory_; }
  std::string link() const { return top_ + "/iovs/5b2d6d1c-2a0f-4f52-9a52-8b2b6c8f0001"; }
  void make_memory() {
    const UniqueFd fd(::open(memory_.c_str(), O_RDWR | O_CREAT, 0600));
    ASSERT_TRUE(fd);
    ASSERT_EQ(::ftruncate(fd.get(), 1 << 20), 0);
  }
  static std::string target_of(const std::string& path) {
    char buffer[4096];
    const ssize_t length = ::readlink(path.c_str(), buffer, sizeof(buffer));
    return length < 0 ? std::strerror(errno) : std::string(buffer, static_cast<size_t>(length));
  }
  // Runs `act` as another user; its result is errno or 0.
  static int as_user(uid_t uid, const std::function<int()>& act) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(255);
      ::_exit(act() == 0 ? 0 : errno);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }

 private:
  std::string top_, memory_;
};

TEST_F(VirtualDirectoryTest, it_is_found_by_name_and_not_by_listing) {
  EXPECT_EQ(names_in(node().mount()).data.find("3fs-virt"), std::string::npos);
  EXPECT_EQ(names_in(top()).data,
            ". type 4\n.. type 4\nget-conf type 4\niovs type 4\nrm-rf type 4\nset-conf type 4\n");
  EXPECT_EQ(names_in(top() + "/get-conf").value, 2);
  struct stat stat {};
  ASSERT_EQ(::stat((top() + "/iovs").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode, mode_t{S_IFDIR | 01777});
  EXPECT_EQ(stat.st_dev, node().front().device());
}

TEST_F(VirtualDirectoryTest, its_name_cannot_be_taken_moved_or_removed) {
  const std::string other = directory("other");
  EXPECT_EQ(::mkdir(top().c_str(), 0755), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(::open(top().c_str(), O_CREAT | O_RDWR, 0644), -1);
  EXPECT_EQ(errno, EISDIR);
  EXPECT_EQ(::symlink("x", top().c_str()), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(::rename(other.c_str(), top().c_str()), -1);
  EXPECT_EQ(::rename(top().c_str(), (node().mount() + "/elsewhere").c_str()), -1);
  EXPECT_EQ(::rmdir(top().c_str()), -1);
  EXPECT_EQ(::mkdir((top() + "/new").c_str(), 0755), -1);
  EXPECT_EQ(::open((top() + "/iovs/file").c_str(), O_CREAT | O_RDWR, 0644), -1);
  EXPECT_EQ(::chmod((top() + "/iovs").c_str(), 0), -1);
  // A name like it elsewhere is an ordinary one.
  EXPECT_EQ(::mkdir((other + "/3fs-virt").c_str(), 0755), 0);
  EXPECT_EQ(::rmdir((other + "/3fs-virt").c_str()), 0);
}

TEST_F(VirtualDirectoryTest, a_link_registers_memory_until_it_is_removed) {
  make_memory();
  ASSERT_EQ(::symlink(memory().c_str(), link().c_str()), 0) << std::strerror(errno);
  EXPECT_EQ(target_of(link()), memory());
  EXPECT_EQ(node().agent().region_links(nullptr)->list({}).size(), 1u);
  EXPECT_EQ(::symlink(memory().c_str(), link().c_str()), -1);
  EXPECT_EQ(errno, EEXIST);
  // Listing and looking end nothing.
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(names_in(top() + "/iovs").value, 3);
    struct stat stat {};
    EXPECT_EQ(::lstat(link().c_str(), &stat), 0);
  }
  EXPECT_EQ(node().agent().region_links(nullptr)->list({}).size(), 1u);
  ASSERT_EQ(::unlink(link().c_str()), 0) << std::strerror(errno);
  EXPECT_EQ(node().agent().region_links(nullptr)->list({}).size(), 0u);
  EXPECT_EQ(target_of(link()), "No such file or directory");
}

TEST_F(VirtualDirectoryTest, links_to_anything_but_shared_memory_are_refused) {
  EXPECT_EQ(::symlink("/etc/passwd", link().c_str()), -1);
  EXPECT_EQ(::symlink("/dev/shm/../../etc/passwd", link().c_str()), -1);
  EXPECT_EQ(::symlink((memory() + "-missing").c_str(), link().c_str()), -1);
  EXPECT_EQ(node().agent().region_links(nullptr)->list({}).size(), 0u);
}

TEST_F(VirtualDirectoryTest, a_link_for_gpu_memory_is_not_supported_and_not_there) {
  make_memory();
  const std::string device = link() + ".gdr.d0";
  struct stat stat {};
  EXPECT_EQ(::lstat(device.c_str(), &stat), -1);
  EXPECT_EQ(errno, ENOENT);
  for (const std::string& target : {memory(), std::string("gdr://v1/device/0")}) {
    EXPECT_EQ(::symlink(target.c_str(), device.c_str()), -1);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  EXPECT_EQ(::unlink(device.c_str()), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(names_in(top() + "/iovs").value, 2);
}

TEST_F(VirtualDirectoryTest, a_user_sees_and_removes_only_own_links) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may act as others";
  make_memory();
  ASSERT_EQ(::chown(memory().c_str(), 1001, 1001), 0);
  ASSERT_EQ(as_user(1001, [&] { return ::symlink(memory().c_str(), link().c_str()); }), 0);
  struct stat stat {};
  EXPECT_EQ(as_user(1002, [&] { return ::lstat(link().c_str(), &stat); }), ENOENT);
  EXPECT_EQ(as_user(1002, [&] { return ::unlink(link().c_str()); }), ENOENT);
  EXPECT_EQ(as_user(1002, [&] { return names_in(top() + "/iovs").value == 2 ? 0 : 1; }), 0);
  EXPECT_EQ(as_user(1001, [&] { return names_in(top() + "/iovs").value == 3 ? 0 : 1; }), 0);
  EXPECT_EQ(as_user(1001, [&] { return ::unlink(link().c_str()); }), 0);
}

TEST_F(VirtualDirectoryTest, a_link_in_rm_rf_removes_a_tree) {
  const std::string doomed = directory("doomed");
  for (int i = 0; i < 5; i++) {
    const std::string inner = fmt::format("{}/d{}", doomed, i);
    ASSERT_EQ(::mkdir(inner.c_str(), 0755), 0);
    for (int j = 0; j < 30; j++) {
      ASSERT_EQ(::mknod(fmt::format("{}/f{}", inner, j).c_str(), S_IFREG | 0644, 0), 0);
    }
    ASSERT_EQ(::symlink("/", (inner + "/link").c_str()), 0);
  }
  ASSERT_EQ(::symlink(doomed.c_str(), (top() + "/rm-rf/job1").c_str()), 0) << std::strerror(errno);
  struct stat stat {};
  EXPECT_EQ(::stat(doomed.c_str(), &stat), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(names_in(top() + "/rm-rf").value, 2);
  // Relative to the root of the mount, and of the second's own kind: a file.
  ASSERT_EQ(::mknod((node().mount() + "/doomed").c_str(), S_IFREG | 0644, 0), 0);
  EXPECT_EQ(::symlink("doomed", (top() + "/rm-rf/job2").c_str()), 0) << std::strerror(errno);
  EXPECT_EQ(::stat(doomed.c_str(), &stat), -1);
}

TEST_F(VirtualDirectoryTest, rm_rf_refuses_what_its_user_may_not_remove_and_what_is_outside) {
  const std::string job = top() + "/rm-rf/job";
  EXPECT_EQ(::symlink("/etc", job.c_str()), -1);
  EXPECT_EQ(::symlink(node().mount().c_str(), job.c_str()), -1);
  EXPECT_EQ(::symlink("..", job.c_str()), -1);
  EXPECT_EQ(::symlink("/", job.c_str()), -1);
  EXPECT_EQ(::symlink("missing", job.c_str()), -1);
  EXPECT_EQ(errno, ENOENT);
  if (::geteuid() != 0) return;
  const std::string kept = directory("kept");
  ASSERT_EQ(::mkdir((kept + "/mine").c_str(), 0755), 0);
  ASSERT_EQ(::mkdir((kept + "/mine/inner").c_str(), 0755), 0);
  EXPECT_EQ(as_user(1001, [&] { return ::symlink((kept + "/mine").c_str(), job.c_str()); }),
            EACCES);
  struct stat stat {};
  EXPECT_EQ(::stat((kept + "/mine/inner").c_str(), &stat), 0);
}

}  // namespace
}  // namespace penstock::posix
