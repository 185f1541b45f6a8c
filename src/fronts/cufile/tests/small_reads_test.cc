// Small reads one after the other, by mailbox where that is possible.
#include "rig.h"

#include <atomic>
#include <random>
#include <thread>

namespace penstock::cufile {
namespace {

class SmallReads : public Cufile {
 protected:
  // Reads at random, until `enough` went by mailbox; whichever way, the bytes must be right.
  void read_until(CUfileHandle_t handle, uint64_t at, uint64_t enough) {
    std::mt19937 random(static_cast<uint32_t>(at));
    for (int i = 0; i < 100'000 && devices_.mailed() < enough; ++i) {
      const uint64_t length = 1 + random() % (random() % 4 == 0 ? 70'000 : 5000);
      const uint64_t offset = random() % (kFileBytes - length);
      const uint64_t to = at + random() % 100;
      ASSERT_EQ(
          cuFileRead(handle, gpu_, length, static_cast<off_t>(offset), static_cast<off_t>(to)),
          static_cast<ssize_t>(length));
      // Looked at from time to time only: the next read must follow close.
      if (i % 64 == 63) {
        ASSERT_EQ(gpu_bytes(to, length), content(offset, length));
      }
    }
    EXPECT_GE(devices_.mailed(), enough);
  }
};

TEST_F(SmallReads, bytes_arrive_at_every_alignment) {
  const UniqueFd fd = make_file("a");
  read_until(handle_of(fd.get()), 0, 1000);
}

TEST_F(SmallReads, one_now_and_then_goes_the_other_way) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(cuFileRead(handle, gpu_, 4096, i * 4096, 0), 4096);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(devices_.mailed(), 0U);
}

TEST_F(SmallReads, end_of_the_file_is_short) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  read_until(handle, 0, 10);
  const uint64_t before = devices_.mailed();
  for (int i = 0; i < 10'000 && devices_.mailed() == before; ++i) {
    ASSERT_EQ(cuFileRead(handle, gpu_, 4096, kFileBytes - 100, 0), 100);
  }
  EXPECT_GT(devices_.mailed(), before);
  EXPECT_EQ(gpu_bytes(0, 100), content(kFileBytes - 100, 100));
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(cuFileRead(handle, gpu_, 4096, kFileBytes, 0), 0);
    ASSERT_EQ(cuFileRead(handle, gpu_, 4096, kFileBytes + 100'000, 0), 0);
  }
}

TEST_F(SmallReads, full_gpu_is_no_error) {
  const UniqueFd fd = make_file("a");
  devices_.faults.full_permille = 500;
  read_until(handle_of(fd.get()), 0, 3);
}

TEST_F(SmallReads, freed_memory_is_told) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  const engine::DeviceSpan other = *devices_.allocate(engine::DeviceId(0), kMiB);
  for (int i = 0; i < 100'000 && devices_.mailed() == 0; ++i) {
    ASSERT_EQ(cuFileRead(handle, other.data, 4096, 0, 0), 4096);
  }
  EXPECT_GT(devices_.mailed(), 0U);
  ASSERT_TRUE(devices_.release(other).ok());
  for (int i = 0; i < 100; ++i) ASSERT_LT(cuFileRead(handle, other.data, 4096, 0, 0), 0);
  EXPECT_EQ(cuFileRead(handle, gpu_, 4096, 0, 0), 4096);
}

TEST_F(SmallReads, lost_gpu_is_an_error) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  read_until(handle, 0, 10);
  devices_.lose(engine::DeviceId(0));
  errno = 0;
  EXPECT_EQ(cuFileRead(handle, gpu_, 4096, 0, 0), -1);
  EXPECT_EQ(errno, EIO);
}

// Once the mover has seen that they are read again, and had them pinned.
TEST_F(SmallReads, what_is_read_again_comes_from_pinned_pages) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  const auto read = [&](uint64_t i, uint64_t round, bool looks) {
    const uint64_t length = 8192 + i % 3 * 4096;
    const uint64_t offset = i * 4097 % (kFileBytes - length);
    const uint64_t to = i % 5 == 0 ? 0 : offset % 16;  // mostly as far past a unit as the source
    ASSERT_EQ(cuFileRead(handle, gpu_, length, static_cast<off_t>(offset), static_cast<off_t>(to)),
              static_cast<ssize_t>(length));
    if (looks) {
      ASSERT_EQ(gpu_bytes(to, length), content(offset, length, round));
    }
  };
  // Looked at from time to time only: the next read must follow close.
  const auto read_until_pinned = [&](uint64_t round) {
    const uint64_t enough = devices_.mailed_pinned() + 1000;
    for (uint64_t i = 0; i < 500'000 && devices_.mailed_pinned() < enough; ++i) {
      read(i, round, i % 64 == 63);
    }
    EXPECT_GE(devices_.mailed_pinned(), enough);
  };
  read_until_pinned(0);
  const Content other = content(0, kFileBytes, 1);
  ASSERT_EQ(::pwrite(fd.get(), other.data(), other.size(), 0), static_cast<ssize_t>(other.size()));
  for (uint64_t i = 0; i < 100; ++i) read(i, 1, true);
  read_until_pinned(1);
}

// Of the larger ones the mover takes one at a time, which is all there are of one thread.
TEST_F(SmallReads, larger_ones_of_one_thread_take_the_mover) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  // At another place modulo 16 than in the file: else a mailbox could fetch them once they are
  // pinned.
  for (int i = 0; i < 500; ++i) ASSERT_EQ(cuFileRead(handle, gpu_, 65'536, i * 100, 1), 65'536);
  EXPECT_EQ(devices_.mailed(), 0U);
  read_until(handle, 0, 10);
}

TEST_F(SmallReads, larger_ones_of_many_threads_go_both_ways) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  std::atomic<int> wrong{0};
  std::atomic<uint64_t> reads{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const uint64_t to = t * 65'536;
        for (uint64_t i = 0; i < 20'000 && devices_.mailed() < 100; ++i) {
          const uint64_t offset = (t * 37 + i) % 1000 * 100;
          const ssize_t got =
              cuFileRead(handle, gpu_, 65'536, static_cast<off_t>(offset), static_cast<off_t>(to));
          ++reads;
          if (got != 65'536) ++wrong;
          if (i % 50 == 49 && gpu_bytes(to, 65'536) != content(offset, 65'536)) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(devices_.mailed(), 100U);
  EXPECT_GT(reads, devices_.mailed());
}

// More threads than desks, so that some find theirs taken.
TEST_F(SmallReads, threads_do_not_meet) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 80; ++t) {
      threads.emplace_back([&, t] {
        const uint64_t to = t * 65'536;
        for (uint64_t i = 0; i < 300; ++i) {
          const uint64_t offset = (t * 37 + i) * 100;
          if (cuFileRead(handle, gpu_, 4096, static_cast<off_t>(offset), static_cast<off_t>(to)) !=
              4096) {
            ++wrong;
          } else if (i % 50 == 49 && gpu_bytes(to, 4096) != content(offset, 4096)) {
            ++wrong;
          }
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace penstock::cufile
