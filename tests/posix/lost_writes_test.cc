// A mount whose node cannot bring small writes to the disk: programs are told, once for each open
// file, and nobody goes on seeing bytes that are nowhere.
#include "mounted_node.h"
#include "threaded_node.h"
#include "twin.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::posix {
namespace {

class LostWritesTest : public client::ThreadTest {
 protected:
  LostWritesTest()
      : ThreadTest(
            [](client::FileSystemConfig& config) { config.behind_age = std::chrono::hours(1); }) {}
  void SetUp() override {
    if (!MountedNode::shared()) GTEST_SKIP() << MountedNode::why_not();
    if (::geteuid() != 0) GTEST_SKIP() << "the node of this test belongs to root";
    ASSERT_EQ(::mkdir(place_.c_str(), 0755), 0);
    fuse::MountConfig config;
    config.mount_point = place_;
    config.source = place_;
    auto mount = fuse::Mount::start(*files, nullptr, config);
    ASSERT_TRUE(mount) << mount.error().message;
    mount_ = std::move(*mount);
  }
  void TearDown() override {
    failing = false;
    if (mount_) mount_->stop();
    ::rmdir(place_.c_str());
  }
  static void put(int fd, char letter) {
    const std::string bytes(100, letter);
    ASSERT_EQ(::write(fd, bytes.data(), bytes.size()), 100);
  }
  static off_t size_of(int fd) {
    struct stat stat {};
    EXPECT_EQ(::fstat(fd, &stat), 0);
    return stat.st_size;
  }
  static std::string read_from_start(int fd) {
    std::string bytes(1000, '?');
    const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), 0);
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
  }

  const std::string place_ =
      MountedNode::shared() ? MountedNode::shared()->scratch() + "/lost" : "";
  const std::string path_ = place_ + "/f";
  std::unique_ptr<fuse::Mount> mount_;
};

TEST_F(LostWritesTest, fsync_tells_once_and_the_file_ends_where_its_bytes_do) {
  const UniqueFd file(::open(path_.c_str(), O_RDWR | O_CREAT, 0644));
  put(file.get(), 'a');
  ASSERT_EQ(::fsync(file.get()), 0);
  const UniqueFd other(::open(path_.c_str(), O_RDONLY));
  put(file.get(), 'b');
  EXPECT_EQ(size_of(other.get()), 200);
  EXPECT_EQ(read_from_start(other.get()), std::string(100, 'a') + std::string(100, 'b'));
  put(file.get(), 'c');
  EXPECT_EQ(size_of(other.get()), 300) << "so that the kernel knows it";
  failing = true;
  EXPECT_EQ(::fsync(file.get()), -1);
  EXPECT_EQ(errno, ENOSPC);
  failing = false;
  const UniqueFd late(::open(path_.c_str(), O_RDONLY));
  EXPECT_EQ(::fsync(file.get()), 0) << "told twice";
  EXPECT_EQ(::fsync(other.get()), -1);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(::fsync(other.get()), 0) << "told twice";
  EXPECT_EQ(::fsync(late.get()), 0) << "of what was lost before it was opened";
  // The kernel is told by and by.
  EXPECT_TRUE(test::eventually([&] { return size_of(other.get()) == 200; }));
  EXPECT_TRUE(test::eventually([&] { return read_from_start(file.get()).size() == 200; }));
}

TEST_F(LostWritesTest, close_tells_and_the_next_write_does_so_itself) {
  UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT, 0644));
  put(file.get(), 'a');
  failing = true;
  EXPECT_EQ(::close(file.release()), -1);
  EXPECT_EQ(errno, ENOSPC);
  failing = false;
  const UniqueFd again(::open(path_.c_str(), O_WRONLY));
  EXPECT_EQ(size_of(again.get()), 0);
  failing = true;
  EXPECT_EQ(::write(again.get(), "b", 1), -1);
  EXPECT_EQ(errno, ENOSPC);
  failing = false;
  EXPECT_EQ(::write(again.get(), "b", 1), 1);
}

TEST_F(LostWritesTest, a_copy_of_the_descriptor_hears_of_it_once) {
  UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT, 0644));
  UniqueFd copy(::dup(file.get()));
  put(file.get(), 'a');
  failing = true;
  EXPECT_EQ(::close(copy.release()), -1);
  failing = false;
  EXPECT_EQ(::close(file.release()), 0);
}

}  // namespace
}  // namespace penstock::posix
