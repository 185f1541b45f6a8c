// Small writes through a mount wait in memory; nobody can tell but by the time they take.
#include "mounted_node.h"
#include "twin.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace penstock::posix {
namespace {

class BehindTest : public PosixTest {
 protected:
  client::FileSystem& files() { return node().files(); }
  // What somebody finds who does not come through the mount.
  std::string read_past_the_mount(const std::string& path) {
    const auto file = files().open_path({}, path, {}, 0, {}, nullptr);
    if (!file) return "not opened";
    std::string bytes(200'000, '?');
    const auto got =
        files().read(*file, 0, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
    EXPECT_TRUE(got);
    bytes.resize(got ? *got : 0);
    EXPECT_TRUE(files().close_file(*file).ok());
    return bytes;
  }
};

TEST_F(BehindTest, each_small_write_is_seen_past_the_mount_when_it_returns) {
  const std::string path = directory("seen") + "/f";
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT, 0644));
  ASSERT_TRUE(fd);
  std::string expected;
  for (int i = 0; i < 300; i++) {
    const std::string piece(static_cast<size_t>(i) * 37 % 900 + 1, static_cast<char>('a' + i % 26));
    ASSERT_EQ(::write(fd.get(), piece.data(), piece.size()), static_cast<ssize_t>(piece.size()));
    expected += piece;
    ASSERT_EQ(files().resolve({}, "/seen/f", true)->length, expected.size());
    struct stat stat {};
    ASSERT_EQ(::fstat(fd.get(), &stat), 0);
    ASSERT_EQ(stat.st_size, static_cast<off_t>(expected.size()));
    if (i % 7 == 0) {
      ASSERT_EQ(read_past_the_mount("/seen/f"), expected);
    }
  }
  ASSERT_EQ(read_all(fd.get()).data, expected);
}

TEST_F(BehindTest, the_time_of_a_write_does_not_change_when_its_bytes_are_brought_away) {
  const std::string path = directory("times") + "/f";
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT, 0644));
  ASSERT_EQ(::write(fd.get(), "a", 1), 1);
  struct stat before {
  }, after{};
  ASSERT_EQ(::fstat(fd.get(), &before), 0);
  ASSERT_EQ(read_past_the_mount("/times/f"), "a");
  ASSERT_EQ(::fsync(fd.get()), 0);
  const auto found = files().resolve({}, "/times/f", true);
  EXPECT_EQ(found->modified, (meta::FileTime{before.st_mtim.tv_sec, before.st_mtim.tv_nsec}));
  ASSERT_EQ(::fstat(fd.get(), &after), 0);
  EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

TEST_F(BehindTest, processes_that_append_to_one_file_lose_no_line) {
  const std::string path = directory("append") + "/f";
  constexpr int kLines = 400;
  std::vector<pid_t> children;
  for (int id = 0; id < 3; id++) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      for (int i = 0; i < kLines; i++) {
        char line[32];
        const int length = std::snprintf(line, sizeof line, "%d %06d\n", id, i);
        if (::write(fd, line, static_cast<size_t>(length)) != length) ::_exit(1);
      }
      ::_exit(::close(fd) == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const std::string all = read_past_the_mount("/append/f");
  ASSERT_EQ(all.size(), 3u * kLines * 9);
  std::vector<int> next(3, 0);
  for (size_t at = 0; at < all.size(); at += 9) {
    const auto id = static_cast<size_t>(all[at] - '0');
    ASSERT_LT(id, 3u);
    ASSERT_EQ(all.substr(at, 9), fmt::format("{} {:06}\n", id, next[id]++));
  }
}

TEST_F(BehindTest, another_mount_reads_what_was_just_written) {
  const std::string here = directory("second") + "/f";
  const std::string second = node().scratch() + "/second";
  ASSERT_EQ(::mkdir(second.c_str(), 0755), 0);
  fuse::MountConfig config;
  config.mount_point = second;
  config.source = node().store();
  auto mount = fuse::Mount::start(files(), nullptr, config);
  ASSERT_TRUE(mount) << mount.error().message;
  const UniqueFd fd(::open(here.c_str(), O_WRONLY | O_CREAT, 0644));
  std::string expected;
  for (int i = 0; i < 50; i++) {
    const std::string piece(100, static_cast<char>('a' + i % 26));
    ASSERT_EQ(::write(fd.get(), piece.data(), piece.size()), 100);
    expected += piece;
    const UniqueFd there(::open((second + "/second/f").c_str(), O_RDONLY));
    ASSERT_EQ(read_all(there.get()).data, expected);
  }
  (*mount)->stop();
  EXPECT_EQ(::rmdir(second.c_str()), 0);
}

}  // namespace
}  // namespace penstock::posix
