// A mount whose disk is full of what was removed.
#include "mounted_node.h"
#include "threaded_node.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::posix {
namespace {

class RoomTest : public client::ThreadTest {
 protected:
  RoomTest()
      : ThreadTest([this](client::FileSystemConfig& config) {
          config.space = [this] { return engine::DiskSpace{kMiB, full_ ? 0 : kMiB}; };
        }) {}
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
    if (mount_) mount_->stop();
    ::rmdir(place_.c_str());
  }
  // Until the chunk of this file is gone the disk is full.
  void fill_with(InodeId id) {
    full_ = true;
    for (Shard& shard : shards) {
      // In the shard's loop, before each operation.
      shard.target->fault = [this, id, &shard, held = false]() mutable {
        const bool holds = shard.target->chunks.count({id, 0}) != 0;
        if (held && !holds) full_ = false;
        held = holds;
        return Status();
      };
    }
  }

  std::atomic<bool> full_{false};
  const std::string place_ =
      MountedNode::shared() ? MountedNode::shared()->scratch() + "/room" : "";
  std::unique_ptr<fuse::Mount> mount_;
};

TEST_F(RoomTest, fallocate_gets_what_removed_files_have_held) {
  const std::string removed = place_ + "/removed";
  UniqueFd file(::open(removed.c_str(), O_WRONLY | O_CREAT, 0644));
  ASSERT_EQ(::write(file.get(), "x", 1), 1);
  ASSERT_EQ(::fsync(file.get()), 0);
  fill_with(files->resolve({}, "/removed", true)->inode);
  ASSERT_EQ(::write(file.get(), "x", 1), 1);
  ASSERT_EQ(::fsync(file.get()), 0);
  const UniqueFd other(::open((place_ + "/other").c_str(), O_WRONLY | O_CREAT, 0644));
  EXPECT_EQ(::fallocate(other.get(), 0, 0, 4096), -1);
  EXPECT_EQ(errno, ENOSPC);
  file.reset();
  // The kernel does not wait for the node to hear of a close, and until then the file is in use.
  ASSERT_TRUE(test::eventually([&] { return files->status().open_files == 1; }));
  ASSERT_EQ(::unlink(removed.c_str()), 0);
  EXPECT_EQ(::fallocate(other.get(), 0, 0, 4096), 0) << std::strerror(errno);
}

}  // namespace
}  // namespace penstock::posix
