// USRBIO against a real agent and its mount.
#include "hf3fs_usrbio.h"
#include "link_name.h"
#include "tests/node.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "penstock/base.h"

namespace penstock::usrbio {
namespace {

using namespace std::chrono_literals;

timespec realtime_in(std::chrono::milliseconds delay) {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  const int64_t ns = time.tv_nsec + delay.count() % 1000 * 1'000'000;
  time.tv_sec += delay.count() / 1000 + ns / 1'000'000'000;
  time.tv_nsec = ns % 1'000'000'000;
  return time;
}

std::string random_bytes(size_t size, uint32_t seed) {
  std::mt19937_64 generator(seed);
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = generator();
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return bytes;
}

// Runs `body` in a child process; its result is the exit status.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class Usrbio : public testing::Test {
 protected:
  static constexpr size_t kIovBytes = 4 * kMiB;

  static void SetUpTestSuite() {
    node_ = new Node;
    if (node_->possible(skip_reason_)) node_->start();
  }
  static void TearDownTestSuite() {
    node_->stop();
    delete node_;
  }

  void SetUp() override {
    if (!skip_reason_.empty()) GTEST_SKIP() << skip_reason_;
    ASSERT_FALSE(HasFatalFailure());
    mount_ = node_->mount();
  }
  void TearDown() override {
    for (const int fd : registered_) hf3fs_dereg_fd(fd);
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
  int wait(int min, std::chrono::milliseconds time = 20s) {
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

  static Node* node_;
  static std::string skip_reason_;
  std::string mount_;
  hf3fs_iov iov_{};
  hf3fs_ior ior_{};
  std::array<hf3fs_cqe, 128> cqes_{};
  std::vector<UniqueFd> files_;
  std::vector<int> registered_;
};

Node* Usrbio::node_ = nullptr;
std::string Usrbio::skip_reason_;

TEST_F(Usrbio, reads_give_the_bytes_that_the_mount_gives) {
  const std::string bytes = random_bytes(3 * kMiB + 777, 1);
  const int fd = make_file("reads", bytes);
  make_iov();
  make_ring(true);
  std::mt19937_64 generator(2);
  for (int round = 0; round < 30; ++round) {
    struct Read {
      size_t offset, length, memory;
    };
    std::vector<Read> reads;
    size_t memory = 0;
    for (int i = 0; i < 64; ++i) {
      Read read{};
      read.offset = generator() % (bytes.size() + 5000);
      read.length = 1 + generator() % 60'000;
      read.memory = memory;
      if (i % 2 == 0) {  // as direct I/O likes it
        read.offset = align_down(read.offset, 4096);
        read.length = align_up(read.length, 4096);
      }
      memory += align_up(read.length, 4096);
      reads.push_back(read);
    }
    ASSERT_LE(memory, kIovBytes);
    std::memset(iov_.base, 0xee, kIovBytes);
    for (Read& read : reads) {
      ASSERT_GE(prepare(true, read.memory, fd, read.offset, read.length, &read), 0);
    }
    ASSERT_EQ(prepare(true, 0, fd, 0, 1), -EAGAIN);
    ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
    ASSERT_EQ(wait(64), 64);
    for (int i = 0; i < 64; ++i) {
      const Read& read = *static_cast<const Read*>(cqes_[static_cast<size_t>(i)].userdata);
      std::vector<char> expected(read.length);
      const ssize_t n = ::pread(fd, expected.data(), read.length, static_cast<off_t>(read.offset));
      ASSERT_EQ(cqes_[static_cast<size_t>(i)].result, n) << read.offset << "+" << read.length;
      ASSERT_EQ(std::memcmp(iov_.base + read.memory, expected.data(), static_cast<size_t>(n)), 0)
          << read.offset << "+" << read.length;
    }
  }
}

TEST_F(Usrbio, writes_are_seen_through_the_mount) {
  const int fd = make_file("writes", "");
  const std::string bytes = random_bytes(kMiB + 123, 3);
  make_iov();
  make_ring(false);
  std::memcpy(iov_.base, bytes.data(), bytes.size());
  constexpr size_t kPiece = 100'000;
  int count = 0;
  for (size_t at = 0; at < bytes.size(); at += kPiece, ++count) {
    ASSERT_GE(prepare(false, at, fd, at, std::min(kPiece, bytes.size() - at)), 0);
  }
  ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
  ASSERT_EQ(wait(count), count);
  for (int i = 0; i < count; ++i) ASSERT_GT(cqes_[static_cast<size_t>(i)].result, 0);
  struct stat status {};
  ASSERT_EQ(::fstat(fd, &status), 0);
  EXPECT_EQ(static_cast<size_t>(status.st_size), bytes.size());
  std::string seen(bytes.size() + 1, '\0');
  ASSERT_EQ(::pread(fd, seen.data(), seen.size(), 0), static_cast<ssize_t>(bytes.size()));
  seen.resize(bytes.size());
  EXPECT_TRUE(seen == bytes);
  // Overwritten through the ring after the mount has cached it.
  std::memset(iov_.base, 'z', 5000);
  EXPECT_EQ(transfer(false, 0, fd, 4000, 5000), 5000);
  ASSERT_EQ(::pread(fd, seen.data(), 5000, 4000), 5000);
  EXPECT_EQ(seen.substr(0, 5000), std::string(5000, 'z'));
}

TEST_F(Usrbio, operation_beyond_the_native_limit_is_one) {
  constexpr size_t kLength = limits::kIoBytesMax + 3 * kMiB + 5;
  const std::string bytes = random_bytes(kLength, 4);
  const int fd = make_file("large", bytes);
  make_iov(kLength + kMiB);
  make_ring(true, 1);
  EXPECT_EQ(transfer(true, 0, fd, 0, kLength + kMiB), static_cast<int64_t>(kLength));
  EXPECT_EQ(std::memcmp(iov_.base, bytes.data(), kLength), 0);
}

TEST_F(Usrbio, one_thread_submits_and_another_waits) {
  constexpr int kReads = 5000;
  const std::string bytes = random_bytes(kMiB, 5);
  const int fd = make_file("threads", bytes);
  make_iov();
  make_ring(true, 32);
  std::atomic<int> wrong{0};
  std::thread waiter([&] {
    std::array<hf3fs_cqe, 16> cqes{};
    for (int taken = 0; taken < kReads;) {
      const int n = hf3fs_wait_for_ios(&ior_, cqes.data(), 16, 1, nullptr);
      ASSERT_GT(n, 0);
      for (int i = 0; i < n; ++i) {
        const hf3fs_cqe& cqe = cqes[static_cast<size_t>(i)];
        const size_t block = reinterpret_cast<uintptr_t>(cqe.userdata) % 256;
        if (cqe.result != 4096) ++wrong;
        if (std::memcmp(iov_.base + block * 4096, bytes.data() + block * 4096, 4096) != 0) ++wrong;
      }
      taken += n;
    }
  });
  for (int i = 0; i < kReads;) {
    const size_t block = static_cast<size_t>(i) * 7 % 256;
    const int index =
        prepare(true, block * 4096, fd, block * 4096, 4096, reinterpret_cast<void*>(block));
    if (index >= 0) ++i;
    if (index == -EAGAIN || i % 8 == 0 || i == kReads) hf3fs_submit_ios(&ior_);
    if (index == -EAGAIN) std::this_thread::yield();
  }
  waiter.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Usrbio, every_wrong_operation_is_refused) {
  const int fd = make_file("errors", random_bytes(10'000, 6));
  const int read_only = make_file("errors", random_bytes(10'000, 6), O_RDONLY);
  const int write_only = make_file("errors-w", "x", O_WRONLY);
  make_iov(8192);
  make_ring(true, 4);
  EXPECT_EQ(hf3fs_io_entries(&ior_), 4);
  EXPECT_EQ(hf3fs_reg_fd(fd, 0), EINVAL);
  const UniqueFd elsewhere(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(hf3fs_reg_fd(elsewhere.get(), 0), EBADF);
  EXPECT_EQ(prepare(true, 0, elsewhere.get(), 0, 1), -EBADF);
  EXPECT_EQ(prepare(true, 0, fd, 0, 0), -EINVAL);
  EXPECT_EQ(prepare(true, 8192, fd, 0, 1), -EINVAL);
  EXPECT_EQ(prepare(true, 0, fd, 0, 8193), -EINVAL);
  EXPECT_EQ(prepare(false, 0, fd, 0, 1), -EINVAL);
  EXPECT_EQ(prepare(true, 0, write_only, 0, 1), -EACCES);
  EXPECT_EQ(transfer(true, 0, read_only, 0, 1), 1);
  EXPECT_EQ(transfer(true, 0, -fd, 0, 1), 1);
  EXPECT_EQ(transfer(true, 0, fd, 10'000, 10), 0);
  EXPECT_EQ(transfer(true, 0, fd, 9'990, 100), 10);
  hf3fs_dereg_fd(fd);
  EXPECT_EQ(prepare(true, 0, fd, 0, 1), -EBADF);
  EXPECT_EQ(hf3fs_reg_fd(fd, 0), -fd);
  EXPECT_EQ(transfer(true, 0, fd, 0, 1), 1);
  make_ring(false, 4);
  EXPECT_EQ(prepare(false, 0, read_only, 0, 1), -EACCES);
  EXPECT_EQ(transfer(false, 0, write_only, 0, 1), 1);
}

TEST_F(Usrbio, operation_must_not_cross_a_block) {
  const int fd = make_file("blocks", random_bytes(64 * kKiB, 7));
  make_iov(64 * kKiB, 16 * kKiB);
  make_ring(true);
  EXPECT_EQ(transfer(true, 16 * kKiB, fd, 0, 16 * kKiB), 16 * 1024);
  EXPECT_EQ(prepare(true, 16 * kKiB - 1, fd, 0, 2), -EINVAL);
  EXPECT_EQ(prepare(true, 0, fd, 0, 16 * kKiB + 1), -EINVAL);
}

TEST_F(Usrbio, positive_depth_waits_for_its_batch) {
  const int fd = make_file("depth", random_bytes(8192, 8));
  make_iov();
  make_ring(true, 8, 4);
  for (int i = 0; i < 3; ++i) ASSERT_GE(prepare(true, 0, fd, 0, 1), 0);
  hf3fs_submit_ios(&ior_);
  EXPECT_EQ(wait(1, 50ms), 0);
  ASSERT_GE(prepare(true, 0, fd, 0, 1), 0);
  hf3fs_submit_ios(&ior_);
  EXPECT_EQ(wait(4), 4);
}

TEST_F(Usrbio, timeout_ends_partial_batches) {
  const int fd = make_file("depth", random_bytes(8192, 8));
  make_iov();
  for (const int depth : {4, -4}) {
    make_ring(true, 8, depth, 30);
    ASSERT_GE(prepare(true, 0, fd, 0, 1), 0);
    const auto begin = std::chrono::steady_clock::now();
    hf3fs_submit_ios(&ior_);
    EXPECT_EQ(wait(1), 1);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 30ms);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  }
  make_ring(true, 8, -4);
  ASSERT_GE(prepare(true, 0, fd, 0, 1), 0);
  hf3fs_submit_ios(&ior_);
  EXPECT_EQ(wait(1), 1);
}

TEST_F(Usrbio, holes_read_as_zeros_or_are_refused) {
  const int fd = make_file("holes", "");
  ASSERT_EQ(::ftruncate(fd, 4 * kMiB), 0);
  ASSERT_EQ(::pwrite(fd, "abc", 3, 0), 3);
  ASSERT_EQ(::fsync(fd), 0);
  make_iov();
  make_ring(true);
  std::memset(iov_.base, 0xee, 8192);
  EXPECT_EQ(transfer(true, 0, fd, 2 * kMiB, 8192), 8192);
  EXPECT_EQ(std::count(iov_.base, iov_.base + 8192, 0), 8192);
  make_ring(true, 8, 0, 0, HF3FS_IOR_FORBID_READ_HOLES | HF3FS_IOR_ALLOW_READ_UNCOMMITTED);
  EXPECT_EQ(transfer(true, 0, fd, 2 * kMiB, 8192), -ENODATA);
  EXPECT_EQ(transfer(true, 0, fd, 0, 3), 3);
}

TEST_F(Usrbio, wait_returns_at_once_for_a_time_on_the_wrong_clock) {
  make_iov();
  make_ring(true);
  timespec monotonic{};
  ::clock_gettime(CLOCK_MONOTONIC, &monotonic);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(hf3fs_wait_for_ios(&ior_, cqes_.data(), 8, 8, &monotonic), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_EQ(hf3fs_wait_for_ios(&ior_, cqes_.data(), 8, 0, nullptr), 0);
}

TEST_F(Usrbio, mounts_and_files_are_recognised) {
  const int fd = make_file("known", "x");
  EXPECT_TRUE(hf3fs_is_hf3fs(fd));
  char mount[256] = "untouched";
  const int length = static_cast<int>(mount_.size()) + 1;
  EXPECT_EQ(hf3fs_extract_mount_point(mount, 0, mount_.c_str()), length);
  EXPECT_EQ(hf3fs_extract_mount_point(mount, length - 1, mount_.c_str()), length);
  EXPECT_STREQ(mount, "untouched");
  EXPECT_EQ(hf3fs_extract_mount_point(mount, length, node_->path("no/such/file").c_str()), length);
  EXPECT_EQ(mount, mount_);
  EXPECT_EQ(hf3fs_extract_mount_point(nullptr, 0, (mount_ + "/../mount/").c_str()), length);
  EXPECT_EQ(hf3fs_extract_mount_point(mount, 256, "/proc"), -1);
}

TEST_F(Usrbio, hard_links_and_holes_are_made) {
  const int fd = make_file("original", random_bytes(256 * kKiB, 9));
  EXPECT_EQ(hf3fs_hardlink(node_->path("original").c_str(), node_->path("second").c_str()), 0);
  EXPECT_EQ(hf3fs_hardlink(node_->path("original").c_str(), node_->path("second").c_str()), EEXIST);
  EXPECT_EQ(hf3fs_hardlink(node_->path("missing").c_str(), node_->path("third").c_str()), ENOENT);
  struct stat status {};
  ASSERT_EQ(::fstat(fd, &status), 0);
  EXPECT_EQ(status.st_nlink, 2U);
  const std::array<size_t, 2> start = {4096, 128 * kKiB};
  const std::array<size_t, 2> end = {8192, 192 * kKiB};
  ASSERT_EQ(hf3fs_punchhole(fd, 2, start.data(), end.data(), 0), 0);
  std::string seen(256 * kKiB, 'x');
  ASSERT_EQ(::pread(fd, seen.data(), seen.size(), 0), static_cast<ssize_t>(seen.size()));
  std::string expected = random_bytes(256 * kKiB, 9);
  std::fill(expected.begin() + 4096, expected.begin() + 8192, '\0');
  std::fill(expected.begin() + 128 * kKiB, expected.begin() + 192 * kKiB, '\0');
  EXPECT_TRUE(seen == expected);
  EXPECT_EQ(hf3fs_punchhole(fd, 1, end.data(), start.data(), 0), EINVAL);
}

TEST_F(Usrbio, memory_goes_with_its_names) {
  make_iov(kMiB, 64 * kKiB);
  Uuid id;
  std::memcpy(id.data(), iov_.id, id.size());
  const std::string link = link_path(mount_, id, 64 * kKiB);
  ASSERT_TRUE(std::filesystem::is_symlink(link));
  const std::string memory = std::filesystem::read_symlink(link);
  struct stat status {};
  ASSERT_EQ(::stat(memory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  hf3fs_iovunlink(&iov_);
  EXPECT_FALSE(std::filesystem::exists(memory));
  iov_.base[0] = 1;  // still there for us
  const int fd = make_file("names", "abc");
  make_ring(true);
  EXPECT_EQ(transfer(true, 0, fd, 0, 3), 3);
  hf3fs_iovdestroy(&iov_);
  EXPECT_FALSE(std::filesystem::is_symlink(link));
  EXPECT_EQ(prepare(true, 0, fd, 0, 1), -EINVAL);
}

TEST_F(Usrbio, two_processes_share_memory_by_its_id) {
  const std::string bytes = random_bytes(64 * kKiB, 10);
  make_file("shared", bytes);
  make_iov(kMiB);
  const int status = in_child([&] {
    hf3fs_iov theirs{};
    hf3fs_ior ring{};
    uint8_t id[16];
    std::memcpy(id, iov_.id, sizeof(id));
    if (hf3fs_iovopen(&theirs, id, mount_.c_str(), 2 * kMiB, 0, -1) != -EINVAL) return 1;
    if (hf3fs_iovopen(&theirs, id, mount_.c_str(), kMiB, 4096, -1) != -ENOENT) return 2;
    if (hf3fs_iovopen(&theirs, id, mount_.c_str(), kMiB, 0, -1) != 0) return 3;
    if (theirs.base == iov_.base) return 4;
    const int fd = ::open(node_->path("shared").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || hf3fs_reg_fd(fd, 0) > 0) return 5;
    if (hf3fs_iorcreate(&ring, mount_.c_str(), 8, true, 0, -1) != 0) return 6;
    if (hf3fs_prep_io(&ring, &theirs, true, theirs.base, fd, 0, 64 * kKiB, nullptr) < 0) return 7;
    hf3fs_submit_ios(&ring);
    hf3fs_cqe cqe{};
    const timespec until = realtime_in(20s);
    if (hf3fs_wait_for_ios(&ring, &cqe, 1, 1, &until) != 1 || cqe.result != 64 * 1024) return 8;
    hf3fs_iordestroy(&ring);
    hf3fs_iovdestroy(&theirs);
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::memcmp(iov_.base, bytes.data(), bytes.size()), 0);
  Uuid id;
  std::memcpy(id.data(), iov_.id, id.size());
  EXPECT_TRUE(std::filesystem::is_symlink(link_path(mount_, id, 0))) << "its maker's to remove";
}

TEST_F(Usrbio, child_uses_what_it_inherits_but_not_rings) {
  const std::string bytes = random_bytes(8192, 11);
  const int fd = make_file("inherited", bytes);
  make_iov(kMiB);
  make_ring(true);
  ASSERT_EQ(transfer(true, 0, fd, 0, 4096), 4096);
  std::memset(iov_.base, 0, 8192);
  const int status = in_child([&] {
    if (prepare(true, 0, fd, 0, 1) != -EINVAL) return 1;
    if (hf3fs_submit_ios(&ior_) != -EINVAL) return 2;
    if (hf3fs_wait_for_ios(&ior_, cqes_.data(), 1, 1, nullptr) != -EINVAL) return 3;
    hf3fs_iordestroy(&ior_);
    if (hf3fs_iorcreate(&ior_, mount_.c_str(), 8, true, 0, -1) != 0) return 4;
    if (transfer(true, 4096, fd, 4096, 4096) != 4096) return 5;
    hf3fs_dereg_fd(fd);
    hf3fs_iordestroy(&ior_);
    hf3fs_iovdestroy(&iov_);
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::memcmp(iov_.base + 4096, bytes.data() + 4096, 4096), 0);
  // The parent's are as they were.
  EXPECT_EQ(transfer(true, 0, fd, 0, 4096), 4096);
  EXPECT_EQ(std::memcmp(iov_.base, bytes.data(), 4096), 0);
}

// As the Python module does: the name is gone before the first operation.
TEST_F(Usrbio, memory_with_a_link_of_the_callers_own_is_attached) {
  const std::string bytes = random_bytes(kMiB, 12);
  const int fd = make_file("links", bytes);
  make_ring(true);
  for (const bool hyphens : {true, false}) {
    const Uuid id = random_uuid();
    const std::string name = "/psm-" + plain_hex(id);
    const UniqueFd memory(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
    ASSERT_TRUE(memory);
    ASSERT_EQ(::ftruncate(memory.get(), kMiB), 0);
    void* base = ::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    ASSERT_NE(base, MAP_FAILED);
    const std::string link =
        link_directory(mount_) + "/" + (hyphens ? hyphenated(id) : plain_hex(id));
    ASSERT_EQ(::symlink(("/dev/shm" + name).c_str(), link.c_str()), 0);
    ASSERT_EQ(hf3fs_iovwrap(&iov_, base, id.data(), mount_.c_str(), kMiB, 4096, -1), 0);
    ASSERT_EQ(::shm_unlink(name.c_str()), 0);
    EXPECT_EQ(transfer(true, 1000, fd, 1000, 10'000), 10'000);
    EXPECT_EQ(std::memcmp(iov_.base + 1000, bytes.data() + 1000, 10'000), 0);
    EXPECT_EQ(::unlink(link.c_str()), 0);
    hf3fs_iovdestroy(&iov_);
    ::munmap(base, kMiB);
  }
}

TEST_F(Usrbio, memory_without_a_link_is_refused) {
  const int fd = make_file("links", "abc");
  make_ring(true);
  std::array<uint8_t, 4096> memory{};
  const Uuid id = random_uuid();
  ASSERT_EQ(hf3fs_iovwrap(&iov_, memory.data(), id.data(), mount_.c_str(), 4096, 0, -1), 0);
  EXPECT_EQ(prepare(true, 0, fd, 0, 3), -ENOENT);
}

TEST_F(Usrbio, another_user_cannot_attach_memory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  make_iov(kMiB);
  Uuid id;
  std::memcpy(id.data(), iov_.id, id.size());
  const std::string memory = std::filesystem::read_symlink(link_path(mount_, id, 0));
  const std::string mine = link_directory(mount_) + "/" + hyphenated(random_uuid());
  const int status = in_child([&] {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) return 1;
    hf3fs_iov theirs{};
    if (hf3fs_iovopen(&theirs, id.data(), mount_.c_str(), kMiB, 0, -1) >= 0) return 2;
    // Nor by a link of one's own to it.
    if (::symlink(memory.c_str(), mine.c_str()) == 0) return 3;
    if (::open(memory.c_str(), O_RDWR) >= 0) return 4;
    return 0;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(Usrbio, rings_come_and_go) {
  const int fd = make_file("rings", random_bytes(8192, 13));
  make_iov();
  for (int i = 0; i < 50; ++i) {
    make_ring(true, 1 + i);
    EXPECT_EQ(hf3fs_io_entries(&ior_), 1 + i);
    ASSERT_EQ(transfer(true, 0, fd, 0, 8192), 8192);
    ASSERT_GE(prepare(true, 0, fd, 0, 1), 0);
    if (i % 2 == 0) hf3fs_submit_ios(&ior_);
  }
  hf3fs_iordestroy(&ior_);
  std::vector<uint8_t> memory(hf3fs_ior_size(12));
  ASSERT_EQ(hf3fs_iorwrap(&ior_, memory.data(), mount_.c_str(), memory.size(), true, 0, 0, 0, 0),
            0);
  EXPECT_EQ(hf3fs_io_entries(&ior_), 12);
  EXPECT_EQ(transfer(true, 0, fd, 0, 8192), 8192);
}

TEST_F(Usrbio, program_in_c_works_with_the_shared_library) {
  const std::string bytes = random_bytes(kMiB + 1, 14);
  make_file("program", bytes);
  const std::string file = node_->path("program");
  const std::string copy = node_->path("program.copy");
  const int status = in_child([&] {
    ::execl(PENSTOCK_C_PROGRAM_PATH, PENSTOCK_C_PROGRAM_PATH, file.c_str(), copy.c_str(), nullptr);
    return 127;
  });
  ASSERT_EQ(status, 0) << "the line in c_program.c, modulo 256";
  const UniqueFd fd(::open(copy.c_str(), O_RDONLY | O_CLOEXEC));
  std::string seen(bytes.size() + 1, '\0');
  ASSERT_EQ(::pread(fd.get(), seen.data(), seen.size(), 0), static_cast<ssize_t>(bytes.size()));
  seen.resize(bytes.size());
  EXPECT_TRUE(seen == bytes);
}

// Last, as these two kill the agent of the suite and start another.
TEST_F(Usrbio, zy_operations_go_on_when_the_agent_comes_back) {
  const std::string bytes = random_bytes(64 * kKiB, 16);
  const int fd = make_file("back", bytes);
  make_iov();
  make_ring(true, 16);
  ASSERT_EQ(transfer(true, 0, fd, 0, 4096), 4096);
  node_->suspend();
  for (size_t i = 0; i < 16; ++i) {
    ASSERT_GE(prepare(true, i * 4096, fd, i * 4096, 4096), 0);
  }
  ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
  node_->kill();
  node_->start();
  ASSERT_EQ(wait(16), 16);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(cqes_[i].result, 4096);
  EXPECT_EQ(std::memcmp(iov_.base, bytes.data(), bytes.size()), 0);
}

TEST_F(Usrbio, zz_death_of_the_agent_ends_every_wait) {
  const int fd = make_file("death", random_bytes(8192, 15));
  make_iov();
  make_ring(true, 16);
  ASSERT_EQ(transfer(true, 0, fd, 0, 8192), 8192);
  node_->suspend();  // so that the operations are in flight for certain
  for (int i = 0; i < 10; ++i) ASSERT_GE(prepare(true, 0, fd, 0, 4096), 0);
  ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
  EXPECT_EQ(wait(1, 50ms), 0);
  std::atomic<bool> returned{false};
  int got = 0;
  std::thread waiter([&] {
    got = hf3fs_wait_for_ios(&ior_, cqes_.data(), 16, 16, nullptr);
    returned = true;
  });
  const auto begin = std::chrono::steady_clock::now();
  node_->kill();
  waiter.join();
  // A successor is waited for before the operations are given up.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  EXPECT_EQ(got, 10);
  for (int i = 0; i < got; ++i) EXPECT_EQ(cqes_[static_cast<size_t>(i)].result, -ECONNRESET);
  EXPECT_EQ(wait(1), -ECONNRESET);
  EXPECT_LT(prepare(true, 0, fd, 0, 1), 0);
  hf3fs_dereg_fd(fd);
  hf3fs_iordestroy(&ior_);
  hf3fs_iovdestroy(&iov_);
  node_->stop();
  files_.clear();

  node_->start();
  const int again = make_file("after-death", "alive");
  make_iov();
  make_ring(true);
  EXPECT_EQ(transfer(true, 0, again, 0, 100), 5);
  EXPECT_EQ(std::memcmp(iov_.base, "alive", 5), 0);
}

}  // namespace
}  // namespace penstock::usrbio
