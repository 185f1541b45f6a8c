// Creating what somebody else has made meanwhile. The kernel of a mount that believes that there is
// no such name asks for a new file, and looks at no rights of the one that is there.
#include "mounted_node.h"
#include "twin.h"
#include "users.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <thread>
#include <vector>

namespace penstock::posix {
namespace {

constexpr uint8_t kOpened = 0;

class CreationTest : public PosixTest {
 protected:
  void SetUp() override {
    PosixTest::SetUp();
    if (IsSkipped()) return;
    if (::geteuid() != 0) GTEST_SKIP() << "it needs root, to be several users";
    path_ = directory("creation");
    host_ = node().host() + "/creation";
    remove_all(host_);
    ASSERT_EQ(::mkdir(host_.c_str(), 0777), 0);
    ASSERT_EQ(::chmod(host_.c_str(), 0777), 0);
    const auto found = node().files().resolve({}, "/creation", true);
    ASSERT_TRUE(found);
    parent_ = found->inode;
  }

  meta::Meta& meta() { return node().files().meta(); }
  static meta::Credentials user(uid_t id) {
    meta::Credentials who;
    who.uid = who.gid = id;
    who.umask = 0;
    return who;
  }
  // The kernel knows that there is no such name, and does not hear that there is one.
  void forget_to_tell(const std::string& name) {
    struct stat stat {};
    ASSERT_EQ(::stat((path_ + "/" + name).c_str(), &stat), -1);
    ASSERT_EQ(errno, ENOENT);
  }
  // The same file on both sides.
  void make(const std::string& name, uid_t owner, mode_t mode) {
    forget_to_tell(name);
    ASSERT_TRUE(meta().create(user(owner), parent_, name, mode, true));
    const UniqueFd twin(::open((host_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600));
    ASSERT_TRUE(twin);
    ASSERT_EQ(::fchown(twin.get(), owner, owner), 0);
    ASSERT_EQ(::fchmod(twin.get(), mode), 0);
  }
  // What Bob gets when he opens the name.
  static int opened_by_bob(const std::string& directory, const std::string& name, int flags) {
    return as_user(kBob, [&] {
      const UniqueFd fd(::open((directory + "/" + name).c_str(), flags, 0666));
      return fd ? kOpened : errno;
    });
  }
  void compare(const std::string& name, int flags, int expected) {
    const int host = opened_by_bob(host_, name, flags);
    EXPECT_EQ(host, expected) << name << ": on the host";
    EXPECT_EQ(opened_by_bob(path_, name, flags), host) << name;
  }
  void set_flags(const std::string& name, uint32_t flags, bool on_host_too) {
    meta::SetAttributes changes;
    changes.flags = flags;
    const auto found = meta().lookup({}, parent_, name);
    ASSERT_TRUE(found);
    ASSERT_TRUE(meta().set_attributes({}, found->inode, changes));
    if (!on_host_too) return;
    const UniqueFd twin(::open((host_ + "/" + name).c_str(), O_RDONLY));
    const int number = static_cast<int>(flags);
    ASSERT_EQ(::ioctl(twin.get(), FS_IOC_SETFLAGS, &number), 0) << std::strerror(errno);
  }

  std::string path_, host_;
  InodeId parent_;
};

TEST_F(CreationTest, others_files_are_opened_as_their_mode_allows) {
  make("private", kAlice, 0600);
  compare("private", O_RDWR | O_CREAT, EACCES);
  make("readable", kAlice, 0644);
  compare("readable", O_RDONLY | O_CREAT, kOpened);
  make("not_writable", kAlice, 0644);
  compare("not_writable", O_WRONLY | O_CREAT, EACCES);
  make("not_to_cut", kAlice, 0644);
  compare("not_to_cut", O_RDONLY | O_CREAT | O_TRUNC, EACCES);
  make("for_all", kAlice, 0666);
  compare("for_all", O_RDWR | O_CREAT, kOpened);
  make("own", kBob, 0600);
  compare("own", O_RDWR | O_CREAT, kOpened);
  make("closed_to_oneself", kBob, 0000);
  compare("closed_to_oneself", O_RDWR | O_CREAT, EACCES);
  make("exclusive", kAlice, 0666);
  compare("exclusive", O_RDWR | O_CREAT | O_EXCL, EEXIST);
}

TEST_F(CreationTest, what_is_no_file_is_treated_as_such) {
  forget_to_tell("directory");
  ASSERT_TRUE(meta().make_directory(user(kAlice), parent_, "directory", 0777));
  ASSERT_EQ(::mkdir((host_ + "/directory").c_str(), 0777), 0);
  compare("directory", O_RDONLY | O_CREAT, EISDIR);
  make("target", kAlice, 0600);
  for (const char* name : {"link", "not_followed", "exclusive_link"}) {
    forget_to_tell(name);
    ASSERT_TRUE(meta().make_symlink(user(kAlice), parent_, name, "target"));
    ASSERT_EQ(::symlink("target", (host_ + "/" + name).c_str()), 0);
  }
  compare("link", O_RDWR | O_CREAT, EACCES);
  compare("not_followed", O_RDWR | O_CREAT | O_NOFOLLOW, ELOOP);
  compare("exclusive_link", O_RDWR | O_CREAT | O_EXCL, EEXIST);
  forget_to_tell("into_nothing");
  ASSERT_TRUE(meta().make_symlink(user(kAlice), parent_, "into_nothing", "made_by_bob"));
  ASSERT_EQ(::symlink("made_by_bob", (host_ + "/into_nothing").c_str()), 0);
  compare("into_nothing", O_RDWR | O_CREAT, kOpened);
  EXPECT_EQ(stat_of(path_ + "/made_by_bob"), stat_of(host_ + "/made_by_bob"));
}

TEST_F(CreationTest, flags_of_what_is_there_hold) {
  make("immutable", kBob, 0666);
  make("append_only", kBob, 0666);
  make("appended_to", kBob, 0666);
  const bool host = [&] {
    const UniqueFd twin(::open((host_ + "/immutable").c_str(), O_RDONLY));
    const int flags = FS_NODUMP_FL;
    return ::ioctl(twin.get(), FS_IOC_SETFLAGS, &flags) == 0;
  }();
  if (!host) GTEST_SKIP() << "the host's file system has no such flags";
  set_flags("immutable", meta::kInodeImmutable, true);
  set_flags("append_only", meta::kInodeAppendOnly, true);
  set_flags("appended_to", meta::kInodeAppendOnly, true);
  compare("immutable", O_WRONLY | O_CREAT, EPERM);
  compare("append_only", O_WRONLY | O_CREAT, EPERM);
  compare("appended_to", O_WRONLY | O_CREAT | O_APPEND, kOpened);
  for (const char* name : {"immutable", "append_only", "appended_to"}) set_flags(name, 0, true);
}

TEST_F(CreationTest, a_file_that_is_there_is_cut_when_that_was_asked_for) {
  make("cut", kBob, 0600);
  const auto found = meta().lookup({}, parent_, "cut");
  ASSERT_TRUE(found);
  auto file = node().files().open_inode({}, found->inode, {.write = true}, false, nullptr);
  ASSERT_TRUE(file);
  std::string bytes = "of an earlier life";
  ASSERT_TRUE(node().files().write(*file, 0,
                                   {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()},
                                   false, nullptr, nullptr));
  ASSERT_TRUE(node().files().close_file(std::move(*file)).ok());
  EXPECT_EQ(as_user(kBob,
                    [&] {
                      const UniqueFd fd(
                          ::open((path_ + "/cut").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0666));
                      struct stat stat {};
                      if (!fd || ::fstat(fd.get(), &stat) != 0) return errno;
                      return stat.st_size == 0 ? 0 : 254;
                    }),
            0);
}

TEST_F(CreationTest, two_users_who_create_the_same_name_at_once_do_not_share_it) {
  constexpr int kTries = 300;
  const auto name = [](int i) { return fmt::format("race{}", i); };
  // Alice by another way than this mount.
  std::vector<char> is_alices(kTries);
  std::thread alice([&] {
    for (int i = 0; i < kTries; ++i) {
      client::OpenFlags flags;
      flags.write = flags.create = flags.exclusive = true;
      auto file = node().files().open_name(user(kAlice), parent_, name(i), flags, 0600, {}, true,
                                           nullptr, nullptr);
      is_alices[static_cast<size_t>(i)] = file.has_value();
      if (!file) continue;
      EXPECT_TRUE(node().files().close_file(std::move(*file)).ok());
    }
  });
  const int bob = as_user(kBob, [&] {
    for (int i = 0; i < kTries; ++i) {
      const UniqueFd fd(::open((path_ + "/" + name(i)).c_str(), O_RDWR | O_CREAT, 0600));
      struct stat stat {};
      if (!fd && errno != EACCES) return errno;
      if (fd && (::fstat(fd.get(), &stat) != 0 || stat.st_uid != kBob)) return 254;
    }
    return 0;
  });
  alice.join();
  EXPECT_EQ(bob, 0) << "254: he has opened her file";
  for (int i = 0; i < kTries; ++i) {
    const auto found = meta().lookup({}, parent_, name(i));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->uid, is_alices[static_cast<size_t>(i)] ? kAlice : kBob);
  }
}

}  // namespace
}  // namespace penstock::posix
