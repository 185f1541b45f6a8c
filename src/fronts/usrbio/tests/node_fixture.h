// USRBIO against a real agent and its mount.
#pragma once

#include "hf3fs_usrbio.h"
#include "link_name.h"
#include "tests/realtime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "penstock/base.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::usrbio {

using namespace std::chrono_literals;

inline std::string random_bytes(size_t size, uint32_t seed) {
  std::mt19937_64 generator(seed);
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = generator();
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return bytes;
}

using test::in_child;

class Usrbio : public testing::Test {
 protected:
  static constexpr size_t kIovBytes = 4 * kMiB;

  static void SetUpTestSuite() {
    skip_reason_ = test::NodeProcess::why_no_mount();
    if (!skip_reason_.empty()) return;
    node_ = new test::NodeProcess({.arguments = {"--capacity", "1073741824"}});
    ASSERT_TRUE(node_->start()) << node_->ending();
  }
  static void TearDownTestSuite() { delete std::exchange(node_, nullptr); }

  void SetUp() override {
    if (!skip_reason_.empty()) GTEST_SKIP() << skip_reason_;
    ASSERT_FALSE(HasFatalFailure());
    mount_ = node_->mount();
  }
  void TearDown() override {
    drop_files();
    hf3fs_iordestroy(&ior_);
    hf3fs_iovdestroy(&iov_);
  }

  // A file with these bytes, written through the mount, and a registered descriptor of it.
  int make_file(const std::string& name, const std::string& bytes, int flags = O_RDWR) {
    const std::string path = node_->path(name);
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    EXPECT_TRUE(fd) << path << ": " << std::strerror(errno);
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
      EXPECT_GT(n, 0) << std::strerror(errno);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    EXPECT_EQ(::fsync(fd.get()), 0);
    const int opened = ::open(path.c_str(), flags | O_CLOEXEC);
    EXPECT_GE(opened, 0);
    files_.emplace_back(opened);
    EXPECT_EQ(hf3fs_reg_fd(opened, 0), -opened);
    registered_.push_back(opened);
    return opened;
  }
  // Before their descriptors are closed: their numbers may be given to others then.
  void drop_files() {
    for (const int fd : registered_) hf3fs_dereg_fd(fd);
    registered_.clear();
    files_.clear();
  }
  void make_iov(size_t size = kIovBytes, size_t block_size = 0) {
    ASSERT_EQ(hf3fs_iovcreate(&iov_, mount_.c_str(), size, block_size, -1), 0);
  }
  void make_ring(bool for_read, int entries = 64, int io_depth = 0, int timeout = 0,
                 uint64_t flags = 0) {
    hf3fs_iordestroy(&ior_);
    ASSERT_EQ(
        hf3fs_iorcreate4(&ior_, mount_.c_str(), entries, for_read, io_depth, timeout, -1, flags),
        0);
  }
  int prepare(bool read, size_t memory, int fd, size_t offset, uint64_t length,
              const void* userdata = nullptr) {
    return hf3fs_prep_io(&ior_, &iov_, read, iov_.base + memory, fd, offset, length, userdata);
  }
  int wait(int min, std::chrono::milliseconds time = 60s) {
    const timespec until = realtime_in(time);
    return hf3fs_wait_for_ios(&ior_, cqes_.data(), static_cast<int>(cqes_.size()), min, &until);
  }
  // One operation from beginning to end; its result.
  int64_t transfer(bool read, size_t memory, int fd, size_t offset, uint64_t length) {
    const int index = prepare(read, memory, fd, offset, length);
    if (index < 0) return index;
    EXPECT_EQ(hf3fs_submit_ios(&ior_), 0);
    EXPECT_EQ(wait(1), 1);
    EXPECT_EQ(cqes_[0].index, index);
    return cqes_[0].result;
  }

  // One for all tests of a suite.
  static inline test::NodeProcess* node_ = nullptr;
  static inline std::string skip_reason_;
  std::string mount_;
  hf3fs_iov iov_{};
  hf3fs_ior ior_{};
  std::array<hf3fs_cqe, 128> cqes_{};
  std::vector<UniqueFd> files_;
  std::vector<int> registered_;
};

}  // namespace penstock::usrbio
