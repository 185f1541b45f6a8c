// Rings and files against a real agent.
#include "tests/node_fixture.h"

namespace penstock::usrbio {
namespace {

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
  EXPECT_EQ(hf3fs_wait_for_ios(&ior_, cqes_.data(), 8, 8, &monotonic), 0);
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

TEST_F(Usrbio, steady_state_allocates_nothing) {
  const int fd = make_file("steady", random_bytes(kMiB, 17));
  make_iov();
  for (const int depth : {0, 16, -16}) {
    make_ring(true, 32, depth, depth == 0 ? 0 : 1000);
    uint64_t before = 0;
    for (size_t round = 0; round < 20; ++round) {
      if (round == 4) before = test::allocations_of_this_thread();
      for (size_t i = 0; i < 32; ++i) {
        ASSERT_GE(prepare(true, i * 4096, fd, (round * 32 + i) % 256 * 4096, 4096), 0);
      }
      hf3fs_submit_ios(&ior_);
      ASSERT_EQ(wait(32), 32);
    }
    EXPECT_EQ(test::allocations_of_this_thread() - before, 0U) << "io_depth " << depth;
  }
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

}  // namespace
}  // namespace penstock::usrbio
