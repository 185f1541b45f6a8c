// Pages of local files, pinned for devices to copy from.
#include "../local_file.h"
#include "../shared_windows.h"
#include "local_rig.h"

#include <atomic>
#include <thread>

namespace penstock::local {
namespace {

using engine::Route;

constexpr uint64_t kWindowBytes = 64 * kMiB;  // as limits.h has it

class WindowsTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr uint64_t kFileBytes = 6 * kMiB + 1234;

  uint32_t make_file(const std::string& name, uint64_t bytes = kFileBytes) {
    fds_.emplace_back(::open((directory_ / name).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644));
    write(fds_.size() - 1, 0, content(0, bytes));
    const Outcome<uint32_t> file = rig_.source->add(fds_.back().get());
    EXPECT_TRUE(file);
    return *file;
  }
  void write(size_t fd, uint64_t offset, const std::vector<std::byte>& bytes) {
    ASSERT_EQ(::pwrite(fds_[fd].get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
  }
  // Reads until the bytes come from a window; false when that takes too long.
  bool wait_for_window(uint32_t file, uint64_t offset = 0) {
    rig_.read(file, 0, kFileBytes);
    return test::eventually([&] {
      rig_.read(file, offset, 100'000);
      return rig_.route == Route::device_mapped || rig_.route == Route::device_gather;
    });
  }

  const test::ScratchDirectory directory_{GetParam()};
  std::vector<UniqueFd> fds_;
  LocalRig rig_{{.threads = 4, .pinned_bytes_max = 256 * kMiB}};
};

TEST_P(WindowsTest, what_is_read_again_comes_from_pinned_pages) {
  const uint32_t file = make_file("a");
  ASSERT_TRUE(wait_for_window(file));
  for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{4097}, 2 * kMiB + 5}) {
    for (const uint64_t length : {uint64_t{1}, uint64_t{4096}, uint64_t{70'000}, 4 * kMiB}) {
      ASSERT_EQ(rig_.read(file, offset, length, offset % 3), content(offset, length));
      EXPECT_NE(rig_.route, Route::device_slots);
    }
  }
  EXPECT_EQ(rig_.read(file, kFileBytes - 10, 4096), content(kFileBytes - 10, 10));
  EXPECT_NE(rig_.route, Route::device_slots);
  EXPECT_TRUE(rig_.read(file, kFileBytes, 4096).empty());
  EXPECT_TRUE(rig_.status.ok());
}

TEST_P(WindowsTest, pages_are_pinned_once_there_is_a_thread_for_it) {
  const uint32_t file = make_file("a");
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  rig_.read(file, 0, 100'000);
  {
    const test::NoMoreThreads none;
    EXPECT_EQ(rig_.read(file, 0, 100'000), content(0, 100'000));
    EXPECT_EQ(rig_.route, Route::device_slots);
  }
  EXPECT_TRUE(wait_for_window(file));
}

TEST_P(WindowsTest, file_of_somebody_else_is_pinned_only_when_it_is_cached) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can play somebody else";
  make_file("a");
  const std::string path = directory_ / "a";
  ASSERT_EQ(::chown(path.c_str(), 4321, 4321), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY));
  const Outcome<uint32_t> file = rig_.source->add(fd.get());
  ASSERT_TRUE(file);
  // On a disk its pages leave the cache.
  ASSERT_EQ(::fsync(fds_[0].get()), 0);
  ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM), 0);
  ASSERT_EQ(::seteuid(65534), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  const bool in_memory = std::string(GetParam()) == "/dev/shm";
  if (!in_memory) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(rig_.read(*file, 0, 4096), content(0, 4096));
      EXPECT_EQ(rig_.route, Route::device_slots);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::vector<std::byte> all(kFileBytes);
    ASSERT_EQ(::pread(fd.get(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
  }
  EXPECT_TRUE(wait_for_window(*file));
  ASSERT_EQ(::seteuid(0), 0);
}

TEST_P(WindowsTest, one_pass_over_a_file_pins_nothing) {
  const uint32_t file = make_file("a");
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  for (uint64_t offset = 0; offset < 6 * kMiB; offset += kMiB) {
    EXPECT_EQ(rig_.read(file, offset, kMiB), content(offset, kMiB));
    EXPECT_EQ(rig_.route, Route::device_slots);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  rig_.read(file, 6 * kMiB, 100);
  EXPECT_EQ(rig_.route, Route::device_slots);
}

// Neighbours in no order: most of them lie before one that was read already.
TEST_P(WindowsTest, one_pass_in_any_order_pins_nothing) {
  const uint32_t file = make_file("a");
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  for (uint64_t i = 0; i < 96; ++i) {
    const uint64_t offset = i * 37 % 96 * 65'536;
    EXPECT_EQ(rig_.read(file, offset, 65'536), content(offset, 65'536));
    EXPECT_EQ(rig_.route, Route::device_slots);
    if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(rig_.source->hold(file, 0, 4096));
  EXPECT_TRUE(wait_for_window(file));
}

TEST_P(WindowsTest, reads_of_other_ways_count) {
  const uint32_t file = make_file("a");
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  EXPECT_FALSE(rig_.source->note_read(file, 0, 2 * kFileBytes)) << "not as much as a whole part";
  EXPECT_TRUE(rig_.source->note_read(file, 0, 2 * kWindowBytes));
  EXPECT_FALSE(rig_.source->note_read(file, 0, 4096)) << "once";
  EXPECT_TRUE(test::eventually([&] {
    rig_.read(file, 0, 1);
    return static_cast<bool>(rig_.source->hold(file, 0, 4096));
  }));
}

TEST_P(WindowsTest, nothing_is_stale_after_a_change_has_returned) {
  const uint32_t file = make_file("a");
  for (uint64_t round = 1; round <= 12; ++round) {
    ASSERT_TRUE(wait_for_window(file)) << round;
    const std::vector<std::byte> bytes = content(0, kFileBytes, round);
    switch (round % 4) {
      case 0:  // in place
        write(0, 0, bytes);
        break;
      case 1:  // the same size, other pages
        ASSERT_EQ(::ftruncate(fds_[0].get(), 0), 0);
        write(0, 0, bytes);
        break;
      case 2:  // shorter, then longer
        ASSERT_EQ(::ftruncate(fds_[0].get(), 50'000), 0);
        EXPECT_EQ(rig_.read(file, 0, 100'000), content(0, 50'000, round - 1));
        write(0, 0, bytes);
        break;
      default:  // a hole in the middle
        ASSERT_EQ(::fallocate(fds_[0].get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65'536),
                  0);
        EXPECT_EQ(rig_.read(file, 0, 65'536), std::vector<std::byte>(65'536));
        write(0, 0, bytes);
    }
    ASSERT_EQ(rig_.read(file, 0, kFileBytes), bytes) << round;
  }
}

TEST_P(WindowsTest, our_own_writes_are_seen) {
  const uint32_t file = make_file("a");
  ASSERT_TRUE(wait_for_window(file));
  const std::vector<std::byte> bytes = content(0, 200'000, 7);
  EXPECT_EQ(rig_.write(file, 300'000, bytes, kMiB), 200'000);
  EXPECT_EQ(rig_.read(file, 300'000, 200'000), bytes);
  ASSERT_TRUE(wait_for_window(file));
  EXPECT_EQ(rig_.read(file, 300'000, 200'000), bytes);
}

TEST_P(WindowsTest, changes_during_reads_bring_bytes_of_one_or_the_other) {
  const uint32_t file = make_file("a", 2 * kMiB);
  ASSERT_TRUE(wait_for_window(file));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t round = 1; !stop; ++round) {
      const std::vector<std::byte> bytes = content(0, 2 * kMiB, round % 2);
      if (round % 3 == 0) {
        ASSERT_EQ(::ftruncate(fds_[0].get(), kMiB), 0);
      }
      write(0, 0, bytes);
      std::this_thread::sleep_for(std::chrono::milliseconds(round % 5 == 0 ? 60 : 1));
    }
  });
  uint64_t mapped = 0;
  for (int i = 0; i < 300; ++i) {
    const uint64_t offset = static_cast<uint64_t>(i) % 50 * 10'000;
    const std::vector<std::byte> got = rig_.read(file, offset, 700'000);
    ASSERT_TRUE(rig_.status.ok());
    ASSERT_GE(got.size(), std::min<uint64_t>(700'000, kMiB - offset));
    mapped += rig_.route == Route::device_slots ? 0 : 1;
    const std::vector<std::byte> rounds[] = {content(offset, got.size(), 0),
                                             content(offset, got.size(), 1)};
    for (uint64_t at = 0; at < got.size(); ++at) {
      const bool known = got[at] == rounds[0][at] || got[at] == rounds[1][at] ||
                         (offset + at >= kMiB && got[at] == std::byte{0});
      ASSERT_TRUE(known) << offset + at;
    }
  }
  stop = true;
  writer.join();
  RecordProperty("reads_from_windows", static_cast<int>(mapped));
}

TEST_P(WindowsTest, removed_files_are_unpinned_and_their_number_means_another) {
  for (int i = 0; i < 3; ++i) {
    const uint32_t file = make_file("a");
    ASSERT_TRUE(wait_for_window(file));
    rig_.source->remove(file);
    const uint32_t young = make_file("b");
    rig_.read(young, 0, 4096);
    rig_.read(young, 0, 4096);
    rig_.source->remove(young);
  }
}

TEST_P(WindowsTest, threads_read_while_files_change) {
  const uint32_t first = make_file("a");
  const uint32_t second = make_file("b");
  ASSERT_TRUE(wait_for_window(first));
  std::atomic<int> good{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      engine::SeededRandom random(t);
      for (int i = 0; i < 60; ++i) {
        const uint64_t offset = random.below(kFileBytes - 100'000);
        route::Transfer transfer;
        rig_.set_up(transfer, t % 2 == 0 ? first : second, offset, 1 + random.below(100'000),
                    t * kMiB);
        rig_.transfers->run(transfer);
        std::vector<std::byte> got(transfer.transferred);
        rig_.devices.peek(rig_.span.data + t * kMiB, got);
        good += transfer.status.ok() && got == content(offset, transfer.memory.length) ? 1 : 0;
      }
    });
  }
  // The same bytes again: the pages stay, the windows do not.
  std::thread writer([&] {
    while (!stop) {
      write(0, 0, content(0, 100'000));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  writer.join();
  EXPECT_EQ(good, 360);
}

TEST_P(WindowsTest, pages_are_held_by_any_thread) {
  const uint32_t file = make_file("a");
  EXPECT_FALSE(rig_.source->hold(file, 0, 4096)) << "not pinned yet";
  ASSERT_TRUE(wait_for_window(file));
  std::thread([&] {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{4097}, 2 * kMiB + 5}) {
      const HeldPages pages = rig_.source->hold(file, offset, 70'000);
      ASSERT_TRUE(pages);
      EXPECT_EQ(std::vector(pages.data(), pages.data() + pages.length()), content(offset, 70'000));
      EXPECT_TRUE(rig_.devices.pinned({pages.data(), pages.length()}));
    }
    const HeldPages last = rig_.source->hold(file, kFileBytes - 10, 4096);
    EXPECT_TRUE(last);
    EXPECT_EQ(last.length(), 10U);
    EXPECT_FALSE(rig_.source->hold(file, kFileBytes, 4096));
    EXPECT_FALSE(rig_.source->hold(file, 2 * kWindowBytes, 4096));
  }).join();
}

TEST_P(WindowsTest, pages_of_a_file_that_has_changed_are_not_held) {
  const uint32_t file = make_file("a");
  ASSERT_TRUE(wait_for_window(file));
  ASSERT_TRUE(rig_.source->hold(file, 0, 4096));
  write(0, 5000, content(0, 10, 3));
  EXPECT_FALSE(rig_.source->hold(file, 0, 4096));
  ASSERT_TRUE(wait_for_window(file));
  EXPECT_TRUE(rig_.source->hold(file, 0, 4096));
}

TEST_P(WindowsTest, pages_stay_pinned_until_the_last_lets_go) {
  const uint32_t file = make_file("a");
  ASSERT_TRUE(wait_for_window(file));
  const std::byte* where = nullptr;
  const auto is_pinned = [&] { return rig_.devices.pinned({where, 4096}); };
  {
    const HeldPages pages = rig_.source->hold(file, 0, 4096);
    ASSERT_TRUE(pages);
    where = pages.data();
    write(0, 0, content(0, 10, 3));
    rig_.read(file, 0, 100'000);  // notices, and drops the window
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(is_pinned());
  }
  EXPECT_TRUE(test::eventually([&] { return !is_pinned(); }));
}

TEST_P(WindowsTest, pages_are_held_and_let_go_while_windows_come_and_go) {
  const uint32_t file = make_file("a");
  ASSERT_TRUE(wait_for_window(file));
  std::atomic<uint64_t> held{0};
  std::atomic<uint64_t> wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = t; !stop; ++i) {
        const HeldPages pages = rig_.source->hold(file, i % 100 * 4096, 8192);
        if (!pages) continue;
        ++held;
        wrong += rig_.devices.pinned({pages.data(), pages.length()}) ? 0 : 1;
      }
    });
  }
  for (int round = 0; round < 5; ++round) {
    write(0, 0, content(0, 100'000));
    EXPECT_TRUE(wait_for_window(file));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(held, 0U);
}

INSTANTIATE_TEST_SUITE_P(, WindowsTest, testing::Values("/dev/shm", "/var/tmp"),
                         [](const auto& one) {
                           return std::string(one.param) == "/dev/shm" ? "memory" : "disk";
                         });

// Such a write takes pages out of the cache when it ends, but has the time of its beginning: what
// was pinned in between must not count.
TEST(FileVersionTest, own_writes_past_the_cache_change_it) {
  const test::ScratchDirectory directory("/var/tmp");
  const UniqueFd fd(::open((directory / "a").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600));
  const auto file = LocalFile::open(fd.get());
  ASSERT_TRUE(file);
  const test::MappedMemory memory(kMiB);
  const uint64_t before = (*file)->version().own_writes;
  route::HostIo io;
  io.write = true;
  io.memory = {memory.bytes().data(), kMiB};
  ASSERT_TRUE((*file)->write(io).ok());
  ASSERT_EQ(io.route, Route::disk_direct);
  EXPECT_GT((*file)->version().own_writes, before);
}

// A closed window's place, let go of by the last who held it, is its own until it is given back.
TEST(SharedWindowsTest, place_of_a_closed_window_is_nobody_elses) {
  uint32_t roused = 0;
  SharedWindows table(1, [&] { ++roused; });
  const std::vector<std::byte> bytes(4096);
  const uint64_t key = SharedWindows::key_of(3, 0);
  SharedWindow* const first = table.open(key, bytes.data(), 0, 4096, {});
  ASSERT_NE(first, nullptr);
  ASSERT_EQ(table.hold(key), first);
  SharedWindows::close(*first);
  EXPECT_EQ(table.hold(key), nullptr);
  EXPECT_TRUE(SharedWindows::is_held(*first));
  EXPECT_EQ(roused, 0U);
  table.release(*first);
  EXPECT_EQ(roused, 1U);
  SharedWindow* const second = table.open(key, bytes.data(), 0, 4096, {});
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_FALSE(SharedWindows::is_held(*first));
  SharedWindows::give_back(*first);
  SharedWindows::close(*second);
  SharedWindows::give_back(*second);
  EXPECT_NE(table.open(key, bytes.data(), 0, 4096, {}), nullptr);
}

TEST(SharedWindowsTest, full_table_takes_no_more) {
  SharedWindows table(1, [] {});
  const std::vector<std::byte> bytes(4096);
  uint32_t opened = 0;
  while (opened < 1000 &&
         table.open(SharedWindows::key_of(1, opened), bytes.data(), 0, 4096, {}) != nullptr) {
    ++opened;
  }
  EXPECT_GE(opened, 2U);
  EXPECT_LT(opened, 1000U);
  for (uint32_t i = 0; i < opened; ++i) {
    SharedWindow* const found = table.hold(SharedWindows::key_of(1, i));
    ASSERT_NE(found, nullptr);
    table.release(*found);
  }
  EXPECT_EQ(table.hold(SharedWindows::key_of(2, 0)), nullptr);
}

TEST(WindowsBound, what_does_not_fit_goes_through_slots) {
  const test::ScratchDirectory directory("/dev/shm");
  LocalRig rig({.threads = 2, .pinned_bytes_max = kWindowBytes});
  const UniqueFd fd(::open((directory / "a").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(2 * kWindowBytes)), 0);
  const std::vector<std::byte> zeros(kWindowBytes);
  for (const uint64_t at : {uint64_t{0}, kWindowBytes}) {
    ASSERT_EQ(::pwrite(fd.get(), zeros.data(), zeros.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(zeros.size()));
  }
  const Outcome<uint32_t> file = rig.source->add(fd.get());
  ASSERT_TRUE(file);
  const auto route_at = [&](uint64_t offset) {
    rig.read(*file, offset, 200'000);
    return rig.route;
  };
  const auto wait_at = [&](uint64_t offset) {
    return test::eventually([&] { return route_at(offset) != Route::device_slots; });
  };
  ASSERT_TRUE(wait_at(0));
  // A busy machine may let the one that is pinned rest for so long that it makes room for the
  // other.
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(route_at(kWindowBytes) == Route::device_slots || route_at(0) == Route::device_slots)
        << "both are pinned";
  }
  EXPECT_TRUE(test::eventually(
      [&] { return wait_at(0) && rig.source->hold(*file, kWindowBytes - 4096, 4096); }));
  EXPECT_FALSE(rig.source->hold(*file, kWindowBytes - 4096, 8192)) << "half of it is not pinned";
  // What was not used for a while makes room.
  EXPECT_TRUE(wait_at(kWindowBytes));
  EXPECT_EQ(route_at(0), Route::device_slots);
}

}  // namespace
}  // namespace penstock::local
