// What a file system keeps about a file besides its bytes: times, access control lists, flags.
#include "mounted_node.h"
#include "users.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace penstock::posix {
namespace {

class AttributesTest : public PosixTest {
 protected:
  static UniqueFd open_file(const std::string& path, int flags, mode_t mode = 0644) {
    return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  }
  static void write_file(const std::string& path, const std::string& content, mode_t mode) {
    const UniqueFd fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    ASSERT_TRUE(fd);
    ASSERT_EQ(::write(fd.get(), content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
    ASSERT_EQ(::fchmod(fd.get(), mode), 0);
  }
  static struct stat stat_of(const std::string& path) {
    struct stat stat {};
    EXPECT_EQ(::lstat(path.c_str(), &stat), 0) << path << ": " << std::strerror(errno);
    return stat;
  }
  static mode_t mode_of(const std::string& path) { return stat_of(path).st_mode & 07777; }
  static int error_of(int result) { return result == 0 ? 0 : errno; }
};

TEST_F(AttributesTest, times_reach_as_far_as_those_of_ext4) {
  const std::string path = directory("times") + "/f";
  write_file(path, "x", 0644);
  const std::pair<timespec, timespec> cases[] = {
      {{0, 0}, {0, 0}},
      {{-2'000'000'000, 1}, {-2'000'000'000, 1}},
      {{10'000'000'000, 999'999'999}, {10'000'000'000, 999'999'999}},
      {{-10'413'792'000, 5}, {-2'147'483'648, 0}},  // 1640
      {{99'999'999'999, 5}, {15'032'385'535, 0}},   // 5138
  };
  for (const auto& [wanted, kept] : cases) {
    const std::array<timespec, 2> times{wanted, wanted};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
    const struct stat stat = stat_of(path);
    for (const timespec& time : {stat.st_atim, stat.st_mtim}) {
      EXPECT_EQ(time.tv_sec, kept.tv_sec);
      EXPECT_EQ(time.tv_nsec, kept.tv_nsec);
    }
  }
}

TEST_F(AttributesTest, access_control_lists_are_kept_checked_and_inherited) {
  struct Entry {
    uint16_t tag, permissions;
    uint32_t id;
  };
  constexpr uint32_t kNobody = UINT32_MAX;
  struct {
    uint32_t version = 2;
    Entry entries[5] = {
        {1, 7, kNobody}, {2, 6, kAlice}, {4, 0, kNobody}, {16, 6, kNobody}, {32, 0, kNobody}};
  } const list;
  const std::string top = directory("acl");
  const std::string path = top + "/f";
  write_file(path, "x", 0600);
  const auto may_write = [&](uid_t user, const std::string& file) {
    return as_user(user, [&] {
      const UniqueFd fd = open_file(file, O_WRONLY);
      return fd ? 0 : errno;
    });
  };
  EXPECT_EQ(may_write(kAlice, path), EACCES);
  ASSERT_EQ(::setxattr(path.c_str(), "system.posix_acl_access", &list, sizeof list, 0), 0)
      << std::strerror(errno);
  EXPECT_EQ(mode_of(path), 0760u);
  EXPECT_EQ(may_write(kAlice, path), 0);
  EXPECT_EQ(may_write(kBob, path), EACCES);
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  EXPECT_EQ(may_write(kAlice, path), EACCES) << "the mask";
  // Inherited in place of the umask, of which only a whole mode knows.
  ASSERT_EQ(::setxattr(top.c_str(), "system.posix_acl_default", &list, sizeof list, 0), 0);
  const mode_t before = ::umask(0077);
  write_file(top + "/made", "x", 0);
  ASSERT_EQ(::unlink((top + "/made").c_str()), 0);
  const UniqueFd made = open_file(top + "/made", O_WRONLY | O_CREAT | O_EXCL, 0666);
  ASSERT_EQ(::mkdir((top + "/below").c_str(), 0777), 0);
  ::umask(before);
  EXPECT_EQ(mode_of(top + "/made"), 0660u);
  EXPECT_EQ(mode_of(top + "/below"), 0760u);
  EXPECT_EQ(may_write(kAlice, top + "/made"), 0);
  char back[sizeof list];
  EXPECT_EQ(::getxattr((top + "/below").c_str(), "system.posix_acl_default", back, sizeof back),
            static_cast<ssize_t>(sizeof list));
  EXPECT_EQ(std::memcmp(back, &list, sizeof list), 0);
  // Without a list the umask counts.
  ASSERT_EQ(::removexattr(top.c_str(), "system.posix_acl_default"), 0);
  ::umask(0027);
  const UniqueFd plain = open_file(top + "/plain", O_WRONLY | O_CREAT | O_EXCL, 0666);
  ::umask(before);
  EXPECT_EQ(mode_of(top + "/plain"), 0640u);
}

TEST_F(AttributesTest, flags_hold_for_root_through_the_mount) {
  const std::string path = directory("flags") + "/f";
  write_file(path, "x", 0666);
  const auto set_flags = [&](int flags) {
    const UniqueFd fd = open_file(path, O_RDONLY);
    return ::ioctl(fd.get(), FS_IOC_SETFLAGS, &flags) == 0 ? 0 : errno;
  };
  const auto flags = [&] {
    int found = 0;
    const UniqueFd fd = open_file(path, O_RDONLY);
    EXPECT_EQ(::ioctl(fd.get(), FS_IOC_GETFLAGS, &found), 0) << std::strerror(errno);
    return found;
  };
  EXPECT_EQ(flags(), 0);
  EXPECT_EQ(as_user(kAlice, [&] { return set_flags(FS_IMMUTABLE_FL); }), EPERM);
  ASSERT_EQ(set_flags(FS_IMMUTABLE_FL), 0);
  EXPECT_EQ(flags(), FS_IMMUTABLE_FL);
  EXPECT_FALSE(open_file(path, O_WRONLY));
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(error_of(::unlink(path.c_str())), EPERM);
  EXPECT_EQ(error_of(::chmod(path.c_str(), 0600)), EPERM);
  EXPECT_EQ(error_of(::truncate(path.c_str(), 0)), EPERM);
  ASSERT_EQ(set_flags(FS_APPEND_FL), 0);
  EXPECT_FALSE(open_file(path, O_WRONLY));
  EXPECT_FALSE(open_file(path, O_WRONLY | O_APPEND | O_TRUNC));
  const UniqueFd appending = open_file(path, O_WRONLY | O_APPEND);
  ASSERT_TRUE(appending);
  EXPECT_EQ(::write(appending.get(), "y", 1), 1);
  fsxattr extended{};
  ASSERT_EQ(::ioctl(appending.get(), FS_IOC_FSGETXATTR, &extended), 0);
  EXPECT_EQ(extended.fsx_xflags, unsigned{FS_XFLAG_APPEND});
  ASSERT_EQ(set_flags(0), 0);
  EXPECT_EQ(set_flags(FS_COMPR_FL), EOPNOTSUPP);
  EXPECT_EQ(stat_of(path).st_size, 2);
  EXPECT_EQ(::unlink(path.c_str()), 0);
}

TEST_F(AttributesTest, whoever_may_not_use_a_file_may_not_link_it_nor_keep_its_set_id_bits) {
  const std::string top = directory("rules");
  write_file(top + "/private", "x", 0600);
  write_file(top + "/shared", "x", 06777);
  const auto link = [&](const std::string& name) {
    return as_user(kAlice, [&] {
      return error_of(::link((top + name).c_str(), (top + name + "-link").c_str()));
    });
  };
  // The kernel's part, where it is told to play it; a session has the rule without being told.
  const UniqueFd rule = open_file("/proc/sys/fs/protected_hardlinks", O_RDONLY);
  char set = '0';
  const bool links = rule && ::read(rule.get(), &set, 1) == 1 && set == '1';
  if (links) {
    EXPECT_EQ(link("/shared"), EPERM) << "it runs as another";
    EXPECT_EQ(link("/private"), EPERM);
  }
  EXPECT_EQ(as_user(kAlice,
                    [&] {
                      const UniqueFd fd = open_file(top + "/shared", O_WRONLY);
                      return fd && ::write(fd.get(), "y", 1) == 1 ? 0 : 1;
                    }),
            0);
  EXPECT_EQ(mode_of(top + "/shared"), 0777u);
  EXPECT_EQ(link("/shared"), 0);
}

TEST_F(AttributesTest, holes_are_seen_and_take_up_nothing) {
  const std::string path = directory("holes") + "/f";
  const UniqueFd fd = open_file(path, O_RDWR | O_CREAT);
  const std::string data(300'000, 'x');
  constexpr off_t kFar = 50'000'000;
  ASSERT_EQ(::pwrite(fd.get(), data.data(), data.size(), 0), 300'000);
  EXPECT_EQ(stat_of(path).st_blocks, 303'104 / 512);
  ASSERT_EQ(::pwrite(fd.get(), data.data(), data.size(), kFar), 300'000);
  const auto blocks = [&] { return stat_of(path).st_blocks; };
  const blkcnt_t before = blocks();
  EXPECT_LT(before, 1300);
  EXPECT_GE(before, 600'000 / 512);
  EXPECT_EQ(::lseek(fd.get(), 0, SEEK_HOLE), 303'104);
  EXPECT_EQ(::lseek(fd.get(), 303'104, SEEK_DATA), kFar / 4096 * 4096);
  EXPECT_EQ(::lseek(fd.get(), kFar, SEEK_HOLE), kFar + 300'000);
  EXPECT_EQ(::lseek(fd.get(), kFar + 300'000, SEEK_DATA), -1);
  EXPECT_EQ(errno, ENXIO);
  ASSERT_EQ(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 8192), 0);
  EXPECT_EQ(blocks(), before - 16);
  EXPECT_EQ(::lseek(fd.get(), 0, SEEK_HOLE), 4096);
  EXPECT_EQ(::lseek(fd.get(), 4096, SEEK_DATA), 12'288);
  ASSERT_EQ(::ftruncate(fd.get(), 0), 0);
  EXPECT_EQ(blocks(), 0);
}

TEST_F(AttributesTest, the_first_read_after_a_change_leaves_its_time) {
  const std::string top = directory("accessed");
  const std::string path = top + "/f";
  write_file(path, "x", 0644);
  const auto accessed = [&](const std::string& of) {
    const timespec time = stat_of(of).st_atim;
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  const auto read_it = [&](int flags) {
    const UniqueFd fd = open_file(path, O_RDONLY | flags);
    char byte = 0;
    EXPECT_EQ(::read(fd.get(), &byte, 1), 1);
  };
  const auto made = accessed(path);
  read_it(O_NOATIME);
  EXPECT_EQ(accessed(path), made);
  read_it(0);
  const auto first = accessed(path);
  EXPECT_GT(first, made);
  read_it(0);
  EXPECT_EQ(accessed(path), first);
  const UniqueFd appending = open_file(path, O_WRONLY | O_APPEND);
  ASSERT_EQ(::write(appending.get(), "y", 1), 1);
  read_it(0);
  EXPECT_GT(accessed(path), first);
  ASSERT_EQ(::symlink("f", (top + "/l").c_str()), 0);
  const auto link_made = accessed(top + "/l");
  char target[8];
  ASSERT_EQ(::readlink((top + "/l").c_str(), target, sizeof target), 1);
  EXPECT_GT(accessed(top + "/l"), link_made);
  const auto listed = accessed(top);
  for (const auto& entry : std::filesystem::directory_iterator(top)) (void)entry;
  EXPECT_GT(accessed(top), listed);
}

TEST_F(AttributesTest, a_file_without_a_name_may_get_one) {
  const std::string top = directory("unnamed");
  UniqueFd fd = open_file(top, O_TMPFILE | O_RDWR, 0640);
  if (!fd && errno == EOPNOTSUPP) GTEST_SKIP() << "this kernel does not ask a mount for it";
  ASSERT_TRUE(fd) << std::strerror(errno);
  ASSERT_EQ(::write(fd.get(), "hello", 5), 5);
  struct stat stat {};
  ASSERT_EQ(::fstat(fd.get(), &stat), 0);
  EXPECT_EQ(stat.st_nlink, 0u);
  EXPECT_TRUE(std::filesystem::is_empty(top));
  const std::string self = "/proc/self/fd/" + std::to_string(fd.get());
  ASSERT_EQ(::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, (top + "/f").c_str(), AT_SYMLINK_FOLLOW), 0)
      << std::strerror(errno);
  fd.reset();
  // Whoever collects files without a name is woken by others, and leaves this one alone.
  for (int i = 0; i < 20; ++i) {
    const UniqueFd left = open_file(top, O_TMPFILE | O_WRONLY);
    ASSERT_TRUE(left);
    ASSERT_EQ(::write(left.get(), "x", 1), 1);
  }
  const auto all_collected = [&] { return node().files().status().removed_waiting == 0; };
  EXPECT_TRUE(test::eventually(all_collected));
  const UniqueFd back = open_file(top + "/f", O_RDONLY);
  char bytes[8] = {};
  EXPECT_EQ(::read(back.get(), bytes, sizeof bytes), 5);
  EXPECT_EQ(mode_of(top + "/f"), 0640u);
  EXPECT_EQ(stat_of(top + "/f").st_nlink, 1u);
}

TEST_F(AttributesTest, statx_tells_when_a_file_was_made) {
  const std::string path = directory("born") + "/f";
  write_file(path, "x", 0600);
  struct statx made {};
  ASSERT_EQ(::statx(AT_FDCWD, path.c_str(), 0, STATX_BTIME | STATX_BASIC_STATS, &made), 0);
  if ((made.stx_mask & STATX_BTIME) == 0) GTEST_SKIP() << "this kernel does not ask for it";
  EXPECT_GT(made.stx_btime.tv_sec, 1'600'000'000);
  EXPECT_EQ(made.stx_size, 1u);
  EXPECT_EQ(made.stx_mode, S_IFREG | 0600);
  const std::array<timespec, 2> times{{{5, 0}, {5, 0}}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
  struct statx later {};
  ASSERT_EQ(::statx(AT_FDCWD, path.c_str(), 0, STATX_BTIME | STATX_BASIC_STATS, &later), 0);
  EXPECT_EQ(later.stx_btime.tv_sec, made.stx_btime.tv_sec);
  EXPECT_EQ(later.stx_btime.tv_nsec, made.stx_btime.tv_nsec);
  EXPECT_EQ(later.stx_mtime.tv_sec, 5);
  struct statx place {};
  EXPECT_EQ(::statx(AT_FDCWD, (node().mount() + "/3fs-virt").c_str(), 0, STATX_BTIME, &place), 0);
}

}  // namespace
}  // namespace penstock::posix
