// Files of real file systems into simulated devices, and back.
#include "local_rig.h"

#include <atomic>
#include <sys/mount.h>
#include <sys/resource.h>
#include <thread>

namespace penstock::local {
namespace {

// Which file system, and how the program opens its file.
struct Place {
  const char* name;
  const char* directory;
  int flags;
};

class LocalSourceTest : public testing::TestWithParam<Place> {
 protected:
  // A file with content() in it, and its number.
  uint32_t make_file(const std::string& name, uint64_t bytes, int flags = O_RDWR) {
    const UniqueFd fd(::open((directory_ / name).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644));
    const std::vector<std::byte> all = content(0, bytes);
    EXPECT_EQ(::write(fd.get(), all.data(), bytes), static_cast<ssize_t>(bytes));
    return add(name, flags);
  }
  uint32_t add(const std::string& name, int flags = O_RDWR) {
    const std::string path = directory_ / name;
    const UniqueFd fd(::open(path.c_str(), flags | GetParam().flags));
    EXPECT_TRUE(fd) << strerror(errno);
    const Outcome<uint32_t> file = rig_.source->add(fd.get());
    EXPECT_TRUE(file);
    return *file;
  }
  void drop_cache(const std::string& name) {
    const UniqueFd fd(::open((directory_ / name).c_str(), O_RDWR));
    ::fsync(fd.get());
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  std::vector<std::byte> file_bytes(const std::string& name, uint64_t offset, uint64_t length) {
    const UniqueFd fd(::open((directory_ / name).c_str(), O_RDONLY));
    std::vector<std::byte> bytes(length);
    const ssize_t got = ::pread(fd.get(), bytes.data(), length, static_cast<off_t>(offset));
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }

  static constexpr uint64_t kFileBytes = 5 * kMiB + 1234;
  const test::ScratchDirectory directory_{GetParam().directory};
  LocalRig rig_;
};

const uint64_t kOffsets[] = {0, 1, 511, 4095, 4096, 4097, 70'000, kMiB - 1, kMiB, 2 * kMiB + 7};
const uint64_t kLengths[] = {1, 7, 512, 4095, 4096, 4097, 40'000, kMiB, kMiB + 1, 3 * kMiB - 5};

TEST_P(LocalSourceTest, reads_at_every_alignment_with_and_without_the_page_cache) {
  const uint32_t file = make_file("a", kFileBytes);
  for (const bool cached : {true, false}) {
    for (const uint64_t offset : kOffsets) {
      if (!cached) drop_cache("a");
      for (const uint64_t length : kLengths) {
        const uint64_t expected = std::min(length, kFileBytes - offset);
        ASSERT_EQ(rig_.read(file, offset, length, offset % 3), content(offset, expected))
            << offset << " + " << length;
        ASSERT_TRUE(rig_.status.ok());
      }
    }
  }
}

TEST_P(LocalSourceTest, writes_at_every_alignment) {
  const uint32_t file = make_file("a", kFileBytes);
  std::vector<std::byte> model = content(0, kFileBytes);
  uint64_t round = 1;
  for (const uint64_t offset : kOffsets) {
    for (const uint64_t length : kLengths) {
      const std::vector<std::byte> bytes = content(offset, length, ++round);
      ASSERT_EQ(rig_.write(file, offset, bytes, offset % 5), length);
      ASSERT_TRUE(rig_.status.ok());
      model.resize(std::max<uint64_t>(model.size(), offset + length));
      std::copy(bytes.begin(), bytes.end(), model.begin() + static_cast<int64_t>(offset));
    }
    ASSERT_EQ(file_bytes("a", 0, model.size() + 1), model);
    ASSERT_EQ(rig_.read(file, 0, model.size()), model);
  }
}

TEST_P(LocalSourceTest, reads_are_short_at_the_end_of_the_file) {
  const uint32_t file = make_file("a", kFileBytes);
  EXPECT_EQ(rig_.read(file, kFileBytes - 10, 4096), content(kFileBytes - 10, 10));
  EXPECT_EQ(rig_.read(file, kFileBytes - kMiB, 4 * kMiB), content(kFileBytes - kMiB, kMiB));
  EXPECT_TRUE(rig_.read(file, kFileBytes, 4096).empty());
  EXPECT_TRUE(rig_.read(file, 1ULL << 40, 3 * kMiB).empty());
  EXPECT_TRUE(rig_.status.ok());
  EXPECT_TRUE(rig_.read(make_file("empty", 0), 0, 4096).empty());
}

TEST_P(LocalSourceTest, operation_without_a_thread_for_it_is_refused) {
  const uint32_t file = make_file("a", 2 * kMiB);
  {
    const test::NoMoreThreads none;
    rig_.read(file, 0, kMiB);
    EXPECT_EQ(rig_.status, Code::busy);
  }
  EXPECT_EQ(rig_.read(file, 0, kMiB), content(0, kMiB));
}

TEST_P(LocalSourceTest, holes_read_as_zeros) {
  make_file("a", 0);
  const UniqueFd fd(::open((directory_ / "a").c_str(), O_RDWR));
  const std::vector<std::byte> some = content(3 * kMiB, 5000);
  ASSERT_EQ(::pwrite(fd.get(), some.data(), some.size(), 3 * kMiB), 5000);
  const uint32_t file = add("a");
  std::vector<std::byte> expected(3 * kMiB + 5000);
  std::copy(some.begin(), some.end(), expected.begin() + 3 * kMiB);
  EXPECT_EQ(rig_.read(file, 0, 8 * kMiB), expected);
}

TEST_P(LocalSourceTest, a_file_that_grows_or_shrinks_is_seen_as_it_is) {
  const uint32_t file = make_file("a", 10'000);
  const UniqueFd fd(::open((directory_ / "a").c_str(), O_RDWR));
  EXPECT_EQ(rig_.read(file, 0, kMiB).size(), 10'000);
  const std::vector<std::byte> more = content(10'000, 500'000);
  ASSERT_EQ(::pwrite(fd.get(), more.data(), more.size(), 10'000), 500'000);
  EXPECT_EQ(rig_.read(file, 0, kMiB), content(0, 510'000));
  ASSERT_EQ(::ftruncate(fd.get(), 777), 0);
  EXPECT_EQ(rig_.read(file, 0, kMiB), content(0, 777));
  const std::vector<std::byte> other = content(0, 20'000, 9);
  ASSERT_EQ(::pwrite(fd.get(), other.data(), other.size(), 0), 20'000);
  EXPECT_EQ(rig_.read(file, 0, kMiB), other);
}

TEST_P(LocalSourceTest, removed_and_closed_files_stay_readable_until_they_are_given_up) {
  const uint32_t file = make_file("a", kFileBytes);
  std::filesystem::remove(directory_ / "a");
  EXPECT_EQ(rig_.read(file, 9, 100'000), content(9, 100'000));
  rig_.source->remove(file);
}

TEST_P(LocalSourceTest, what_the_descriptor_forbids_is_an_error_of_that_operation) {
  const uint32_t reading = make_file("a", kFileBytes, O_RDONLY);
  EXPECT_EQ(rig_.write(reading, 0, content(0, 4096)), 0);
  EXPECT_EQ(rig_.status, Status(Code::bad_handle));
  EXPECT_EQ(rig_.read(reading, 0, 4096), content(0, 4096));
  const uint32_t writing = add("a", O_WRONLY);
  EXPECT_TRUE(rig_.read(writing, 0, 4096).empty());
  EXPECT_EQ(rig_.status, Status(Code::bad_handle));
  EXPECT_EQ(rig_.write(writing, 0, content(0, 4096)), 4096);
}

TEST_P(LocalSourceTest, a_write_beyond_the_limit_of_file_sizes_fails_alone) {
  const uint32_t file = make_file("a", 4096);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{64 * kKiB, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_EQ(rig_.write(file, 100 * kKiB, content(0, 4096)), 0);
  const Status refused = rig_.status;
  const uint64_t taken = rig_.write(file, 60 * kKiB, content(60 * kKiB, 16 * kKiB));
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(refused, Status(Code::too_large));
  EXPECT_EQ(taken, 4 * kKiB);
  EXPECT_EQ(rig_.read(file, 60 * kKiB, 16 * kKiB), content(60 * kKiB, 4 * kKiB));
}

TEST_P(LocalSourceTest, host_memory_is_read_and_written_in_the_calling_thread) {
  const uint32_t file = make_file("a", kFileBytes);
  std::vector<std::byte> bytes(100'000);
  route::HostIo io;
  io.file = file;
  io.offset = 12'345;
  io.memory = {bytes.data() + 1, 99'000};
  rig_.source->run(io);
  ASSERT_TRUE(io.status.ok());
  bytes.resize(99'001);
  bytes.erase(bytes.begin());
  EXPECT_EQ(bytes, content(12'345, 99'000));
  io.write = true;
  io.offset = 3;
  io.memory = {bytes.data(), 99'000};
  rig_.source->run(io);
  EXPECT_EQ(io.transferred, 99'000);
  EXPECT_EQ(file_bytes("a", 3, 99'000), bytes);
}

TEST_P(LocalSourceTest, reads_during_writes_bring_old_or_new_bytes) {
  const uint32_t file = make_file("a", 2 * kMiB);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const UniqueFd fd(::open((directory_ / "a").c_str(), O_RDWR));
    for (uint64_t round = 1; !stop; ++round) {
      const std::vector<std::byte> bytes = content(0, 2 * kMiB, round % 3);
      for (uint64_t at = 0; at < bytes.size(); at += route::kBlockBytes) {
        ASSERT_EQ(::pwrite(fd.get(), &bytes[at], route::kBlockBytes, static_cast<off_t>(at)), 4096);
      }
    }
  });
  for (int i = 0; i < 60; ++i) {
    const uint64_t from = static_cast<uint64_t>(i) % 100 * route::kBlockBytes;
    const std::vector<std::byte> got = rig_.read(file, from, kMiB);
    ASSERT_TRUE(rig_.status.ok());
    ASSERT_EQ(got.size(), kMiB);
    const std::vector<std::byte> rounds[] = {content(from, kMiB, 0), content(from, kMiB, 1),
                                             content(from, kMiB, 2)};
    for (uint64_t at = 0; at < kMiB; ++at) {
      const bool known =
          got[at] == rounds[0][at] || got[at] == rounds[1][at] || got[at] == rounds[2][at];
      ASSERT_TRUE(known) << from + at;
    }
  }
  stop = true;
  writer.join();
}

TEST_P(LocalSourceTest, threads_do_not_mix_their_bytes) {
  const uint32_t file = make_file("a", kFileBytes);
  const uint32_t other = make_file("b", kFileBytes);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      engine::SeededRandom random(t);
      std::vector<std::byte> got;
      for (int i = 0; i < 50; ++i) {
        const uint64_t offset = random.below(kFileBytes - 200'000);
        const uint64_t length = 1 + random.below(i % 5 == 0 ? 200'000 : 9'000);
        route::Transfer transfer;
        rig_.set_up(transfer, t % 2 == 0 ? file : other, offset, length, t * kMiB);
        rig_.transfers->run(transfer);
        got.resize(transfer.transferred);
        rig_.devices.peek(rig_.span.data + t * kMiB, got);
        good += transfer.status.ok() && got == content(offset, length) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
}

INSTANTIATE_TEST_SUITE_P(, LocalSourceTest,
                         testing::Values(Place{"memory", "/dev/shm", 0},
                                         Place{"disk", "/var/tmp", 0},
                                         Place{"disk_direct", "/var/tmp", O_DIRECT}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(LocalSourceFiles, only_files_are_accepted) {
  LocalRig rig;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  const UniqueFd directory(::open("/", O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(rig.source->add(reader.get()).error().status, Status(Code::invalid_argument));
  EXPECT_EQ(rig.source->add(directory.get()).error().status, Status(Code::invalid_argument));
  EXPECT_EQ(rig.source->add(-1).error().status, Status(Code::invalid_argument));
}

TEST(LocalSourceFiles, a_full_file_system_ends_the_write_with_no_space) {
  const test::ScratchDirectory directory("/dev/shm");
  const std::string mount = directory / "small";
  std::filesystem::create_directory(mount);
  if (::mount("none", mount.c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "may not mount";
  {
    LocalRig rig;
    const UniqueFd fd(::open((mount + "/a").c_str(), O_RDWR | O_CREAT, 0600));
    const Outcome<uint32_t> file = rig.source->add(fd.get());
    ASSERT_TRUE(file);
    const uint64_t taken = rig.write(*file, 0, content(0, 3 * kMiB));
    EXPECT_EQ(rig.status, Status(Code::no_space));
    EXPECT_LE(taken, kMiB);
    EXPECT_EQ(rig.read(*file, 0, taken), content(0, taken));
    EXPECT_TRUE(rig.status.ok());
    rig.source->remove(*file);
  }
  ::umount(mount.c_str());
}

}  // namespace
}  // namespace penstock::local
