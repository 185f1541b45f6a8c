// The whole node in this process, through the C interface.
#include "client.h"
#include "library_threads.h"

#include <atomic>
#include <gtest/gtest.h>
#include <set>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>

namespace penstock::api {
namespace {

class Embedded : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(client.open_store(scratch.store()), 0) << penstock_last_error();
    client.prepare();
  }

  test::ScratchDirectory scratch;
  Client client;
};

TEST_F(Embedded, reads_back_what_was_written) {
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  ASSERT_GE(file, 0) << penstock_last_error();
  constexpr size_t kSize = 300'000;
  test::fill({client.memory(), kSize}, 1);
  EXPECT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 5, kSize)), static_cast<int64_t>(kSize));
  std::fill_n(client.memory(), kSize, std::byte{0});
  penstock_route route = 0;
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 5, kSize), &route),
            static_cast<int64_t>(kSize));
  EXPECT_TRUE(test::is_content({client.memory(), kSize}, 1));
  EXPECT_NE(std::string(penstock_route_name(route)), "none");
  EXPECT_EQ(penstock_file_close(client.session, file), 0);
}

TEST_F(Embedded, takes_no_signals_in_any_of_its_threads) {
  ASSERT_EQ(client.open("/a", O_RDWR | O_CREAT), 0);
  EXPECT_GE(count_library_threads(), 4);
}

TEST_F(Embedded, leaves_memory_alone_whose_region_was_released) {
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  test::fill({client.memory(), kMiB}, 1);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, kMiB)), static_cast<int64_t>(kMiB));
  for (const uint8_t operation : {PENSTOCK_READ, PENSTOCK_WRITE}) {
    penstock_region* gone = nullptr;
    ASSERT_EQ(penstock_region_create(client.session, kMiB, &gone), 0);
    penstock_io io = client.io(operation, file, 0, 4096, 0, 77);
    io.region = gone;
    ASSERT_EQ(penstock_prepare(client.ring, &io), 0);
    ASSERT_EQ(penstock_region_release(gone), 0);
    // Of the same size, and with its number.
    penstock_region* next = nullptr;
    ASSERT_EQ(penstock_region_create(client.session, kMiB, &next), 0);
    auto* const memory = static_cast<std::byte*>(penstock_region_base(next));
    test::fill({memory, kMiB}, 2);
    ASSERT_EQ(penstock_submit(client.ring), 1);
    penstock_completion completion{};
    ASSERT_EQ(penstock_wait(client.ring, &completion, 1, 1, Client::in_seconds(60)), 1);
    EXPECT_EQ(completion.result, -EINVAL);
    EXPECT_EQ(completion.user_data, 77U);
    EXPECT_TRUE(test::is_content({memory, kMiB}, 2));
    EXPECT_EQ(penstock_region_release(next), 0);
  }
  ASSERT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, kMiB)), static_cast<int64_t>(kMiB));
  EXPECT_TRUE(test::is_content({client.memory(), kMiB}, 1));
}

TEST_F(Embedded, stores_what_can_be_read_when_the_buffer_changes_during_writes) {
  constexpr uint64_t kPiece = 16 * kKiB;
  constexpr uint64_t kPieces = 2048;
  constexpr uint64_t kDepth = 32;
  const penstock_file file = client.open("/changing", O_RDWR | O_CREAT);
  ASSERT_GE(file, 0);
  std::atomic<bool> over{false};
  // One byte of each block changes all the time, and changes back: no look at the memory before and
  // after a write can tell.
  std::thread scribbler([&] {
    auto* memory = reinterpret_cast<volatile unsigned char*>(client.memory());
    for (uint64_t i = 0; !over.load(std::memory_order_relaxed); ++i) {
      volatile unsigned char& byte = memory[(i * 4096 + i / 97) % (kDepth * kPiece)];
      byte = static_cast<unsigned char>(byte ^ 1);
    }
  });
  for (uint64_t done = 0; done < kPieces; done += kDepth) {
    for (uint64_t i = 0; i < kDepth; ++i) {
      const penstock_io io =
          client.io(PENSTOCK_WRITE, file, (done + i) * kPiece, kPiece, i * kPiece);
      ASSERT_EQ(penstock_prepare(client.ring, &io), 0);
    }
    ASSERT_EQ(penstock_submit(client.ring), static_cast<int>(kDepth));
    std::vector<penstock_completion> ended(kDepth);
    ASSERT_EQ(penstock_wait(client.ring, ended.data(), kDepth, kDepth, Client::in_seconds(60)),
              static_cast<int>(kDepth));
    for (const penstock_completion& one : ended) {
      EXPECT_EQ(one.result, static_cast<int64_t>(kPiece));
    }
  }
  over = true;
  scribbler.join();
  uint64_t unreadable = 0;
  for (uint64_t i = 0; i < kPieces; ++i) {
    const int64_t got = client.run(client.io(PENSTOCK_READ, file, i * kPiece, kPiece));
    unreadable += got == static_cast<int64_t>(kPiece) ? 0 : 1;
  }
  EXPECT_EQ(unreadable, 0U);
}

TEST_F(Embedded, ends_reads_at_the_length_and_shows_holes_as_zeros) {
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  test::fill({client.memory(), 100}, 1);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 9000, 100)), 100);
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 9050, 4096)), 50);
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 9100, 4096)), 0);
  std::fill_n(client.memory(), 4096, std::byte{1});
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096)), 4096);
  EXPECT_EQ(client.memory()[0], std::byte{0});
  EXPECT_EQ(client.memory()[4095], std::byte{0});
  penstock_io refuse = client.io(PENSTOCK_READ, file, 0, 4096);
  refuse.flags = PENSTOCK_REFUSE_HOLES;
  EXPECT_EQ(client.run(refuse), -ENODATA);
}

TEST_F(Embedded, leaves_verifying_to_a_caller_who_wants_checksums) {
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  constexpr size_t kSize = 200'000;
  test::fill({client.memory(), kSize}, 1);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, kSize)), static_cast<int64_t>(kSize));
  constexpr size_t kAsked = 50 * 4096;
  penstock_io io = client.io(PENSTOCK_READ, file, 0, kAsked);
  io.flags = PENSTOCK_CHECKSUMS;
  EXPECT_EQ(client.run(io), static_cast<int64_t>(kSize));
  const auto* const told = reinterpret_cast<const uint32_t*>(client.memory() + kAsked);
  for (size_t block = 0; block < kSize / 4096; ++block) {
    EXPECT_EQ(told[block], crc32c({client.memory() + block * 4096, 4096})) << block;
  }
  io.length = kAsked - 1;
  EXPECT_EQ(penstock_prepare(client.ring, &io), -EINVAL);
  io.length = kAsked;
  io.offset = 512;
  EXPECT_EQ(penstock_prepare(client.ring, &io), -EINVAL);
  io.offset = 0;
  io.region_offset = kMiB - kAsked;
  EXPECT_EQ(penstock_prepare(client.ring, &io), -EINVAL) << "no room behind the bytes";
}

TEST_F(Embedded, refuses_what_could_not_succeed_when_prepared) {
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  const penstock_io good = client.io(PENSTOCK_READ, file, 0, 4096);
  const auto prepare = [&](auto change) {
    penstock_io io = good;
    change(io);
    return penstock_prepare(client.ring, &io);
  };
  EXPECT_EQ(prepare([](penstock_io& io) { io.operation = 0; }), -EINVAL);
  EXPECT_EQ(prepare([](penstock_io& io) { io.operation = 77; }), -EINVAL);
  EXPECT_EQ(prepare([](penstock_io& io) { io.flags = PENSTOCK_DURABLE; }), -EINVAL);
  EXPECT_EQ(prepare([](penstock_io& io) { io.flags = 0x80; }), -EINVAL);
  EXPECT_EQ(prepare([](penstock_io& io) { io.length = 0; }), -EINVAL);
  EXPECT_EQ(prepare([](penstock_io& io) { io.length = 65 * kMiB; }), -EINVAL);
  EXPECT_EQ(prepare([](penstock_io& io) { io.region = nullptr; }), -EINVAL);
  EXPECT_EQ(prepare([](penstock_io& io) { io.region_offset = kMiB - 4095; }), -EINVAL);
  EXPECT_EQ(prepare([](penstock_io& io) { io.region_offset = UINT64_MAX; }), -EINVAL);
  EXPECT_EQ(prepare([](penstock_io& io) { io.offset = UINT64_MAX - 4000; }), -EINVAL);
  EXPECT_EQ(prepare([](penstock_io& io) { io.file = -1; }), -EBADF);
  EXPECT_EQ(prepare([](penstock_io& io) { io.file = 1000; }), -EBADF);
  EXPECT_EQ(prepare([](penstock_io& io) { io.file = INT32_MAX; }), -EBADF);
  EXPECT_EQ(penstock_submit(client.ring), 0);
}

TEST_F(Embedded, gives_eacces_to_a_write_through_a_file_opened_for_reading) {
  ASSERT_GE(client.open("/a", O_RDWR | O_CREAT), 0);
  const penstock_file reading = client.open("/a", O_RDONLY);
  EXPECT_EQ(client.run(client.io(PENSTOCK_WRITE, reading, 0, 4096)), -EACCES);
  const penstock_file writing = client.open("/a", O_WRONLY);
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, writing, 0, 4096)), -EACCES);
}

TEST_F(Embedded, says_that_a_lane_is_full_and_goes_on_after_completions) {
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  const penstock_io io = client.io(PENSTOCK_NOP, file, 0, 0);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(penstock_prepare(client.ring, &io), 0);
  EXPECT_EQ(penstock_prepare(client.ring, &io), -EAGAIN);
  EXPECT_EQ(penstock_submit(client.ring), 64);
  penstock_completion completions[64];
  EXPECT_EQ(penstock_wait(client.ring, completions, 64, 64, Client::in_seconds(60)), 64);
  EXPECT_EQ(penstock_prepare(client.ring, &io), 0);
}

TEST_F(Embedded, returns_what_is_there_when_the_deadline_passes) {
  penstock_completion completions[4];
  EXPECT_EQ(penstock_wait(client.ring, completions, 4, 4, penstock_now() + 1'000'000), 0);
  EXPECT_EQ(penstock_wait(client.ring, completions, 4, 4, PENSTOCK_FOREVER), 0)
      << "with nothing in flight there is nothing to wait for";
  penstock_lane* lane = nullptr;
  ASSERT_EQ(penstock_lane_claim(client.ring, &lane), 0);
  const uint64_t before = penstock_now();
  EXPECT_EQ(penstock_lane_wait(lane, completions, 4, 1, before + 20'000'000), 0);
  EXPECT_GE(penstock_now(), before + 20'000'000);
  EXPECT_EQ(penstock_lane_release(lane), 0);
}

TEST_F(Embedded, wakes_a_thread_that_waits_when_another_submits_on_its_lane) {
  penstock_lane* lane = nullptr;
  ASSERT_EQ(penstock_lane_claim(client.ring, &lane), 0);
  penstock_completion completion{};
  int count = 0;
  std::thread waiter(
      [&] { count = penstock_lane_wait(lane, &completion, 1, 1, Client::in_seconds(60)); });
  penstock_io io = client.io(PENSTOCK_NOP, 0, 0, 0, 0, 42);
  ASSERT_EQ(penstock_lane_prepare(lane, &io), 0);
  ASSERT_EQ(penstock_lane_prepare(lane, &io), 0);
  EXPECT_EQ(penstock_lane_submit(lane, 1), 1);
  waiter.join();
  EXPECT_EQ(count, 1);
  EXPECT_EQ(completion.user_data, 42u);
  EXPECT_EQ(penstock_lane_release(lane), 0) << "what was only prepared is dropped";
}

TEST_F(Embedded, gives_each_thread_a_lane_and_takes_it_back_at_its_end) {
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, 4096)), 4096);
  // Many more threads than lanes, four minus this one's at a time.
  for (int round = 0; round < 10; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 20; ++n) {
          EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096)), 4096);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(penstock_ring_leave(client.ring), 0);
}

TEST_F(Embedded, says_when_all_lanes_belong_to_other_threads) {
  penstock_lane* lanes[4];
  for (penstock_lane*& lane : lanes) ASSERT_EQ(penstock_lane_claim(client.ring, &lane), 0);
  const penstock_io io = client.io(PENSTOCK_NOP, 0, 0, 0);
  EXPECT_EQ(penstock_prepare(client.ring, &io), -EUSERS);
  penstock_lane* fifth = nullptr;
  EXPECT_EQ(penstock_lane_claim(client.ring, &fifth), -EUSERS);
  for (penstock_lane* lane : lanes) EXPECT_EQ(penstock_lane_release(lane), 0);
}

TEST_F(Embedded, ends_operations_with_etimedout_when_their_deadline_has_passed) {
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, 4096)), 4096);
  penstock_io io = client.io(PENSTOCK_READ, file, 0, 4096);
  io.deadline = 1;
  EXPECT_EQ(client.run(io), -ETIMEDOUT);
}

TEST_F(Embedded, closes_files_later) {
  const penstock_file first = client.open("/a", O_RDWR | O_CREAT);
  ASSERT_GE(first, 0) << penstock_last_error();
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, first, 0, 4096)), 4096);
  // More than may wait for an answer at a time.
  for (int i = 0; i < 200; ++i) {
    const penstock_file file = client.open("/a", O_RDONLY);
    ASSERT_GE(file, 0) << penstock_last_error();
    if (i % 2 == 0) {
      ASSERT_EQ(client.run(client.io(PENSTOCK_READ, file, 0, 4096)), 4096);
    }
    ASSERT_EQ(penstock_file_close_later(client.session, file), 0) << penstock_last_error();
    // For its program it is closed at once.
    EXPECT_EQ(penstock_file_close_later(client.session, file), -EBADF);
    EXPECT_EQ(penstock_file_close(client.session, file), -EBADF);
    penstock_io io = client.io(PENSTOCK_READ, file, 0, 4096);
    EXPECT_EQ(penstock_prepare(client.ring, &io), -EBADF);
  }
  EXPECT_EQ(client.run(client.io(PENSTOCK_READ, first, 0, 4096)), 4096);
  EXPECT_EQ(penstock_file_close(client.session, first), 0);
}

TEST_F(Embedded, uses_memory_that_the_caller_made) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), 3 * 4096), 0);
  void* base = ::mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 4096);
  ASSERT_NE(base, MAP_FAILED);
  penstock_region* region = nullptr;
  ASSERT_EQ(penstock_region_register(client.session, fd.get(), 4096, base, 2 * 4096, &region), 0)
      << penstock_last_error();
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  auto* bytes = static_cast<std::byte*>(base);
  test::fill({bytes, 8192}, 3);
  penstock_io io = client.io(PENSTOCK_WRITE, file, 0, 8192);
  io.region = region;
  EXPECT_EQ(client.run(io), 8192);
  std::fill_n(bytes, 8192, std::byte{0});
  io.operation = PENSTOCK_READ;
  EXPECT_EQ(client.run(io), 8192);
  EXPECT_TRUE(test::is_content({bytes, 8192}, 3));
  EXPECT_EQ(penstock_region_release(region), 0);
  EXPECT_EQ(penstock_region_register(client.session, fd.get(), 4096, base, 3 * 4096, &region),
            -EINVAL)
      << "beyond the end of the memory";
  ::munmap(base, 2 * 4096);
}

TEST_F(Embedded, does_the_calls_of_a_namespace) {
  penstock_session* s = client.session;
  EXPECT_EQ(penstock_mkdir(s, "/d", 0755), 0);
  EXPECT_EQ(penstock_mkdir(s, "/d", 0755), -EEXIST);
  const penstock_file file = client.open("/d/a", O_RDWR | O_CREAT, 0640);
  ASSERT_GE(file, 0);
  EXPECT_EQ(penstock_ftruncate(s, file, 12345), 0);
  struct stat st {};
  EXPECT_EQ(penstock_fstat(s, file, &st), 0);
  EXPECT_EQ(st.st_size, 12345);
  EXPECT_TRUE(S_ISREG(st.st_mode));
  EXPECT_EQ(st.st_mode & 0777, 0640u);
  EXPECT_EQ(penstock_fsync(s, file), 0);
  EXPECT_EQ(penstock_file_close(s, file), 0);
  EXPECT_EQ(penstock_file_close(s, file), -EBADF);
  EXPECT_EQ(penstock_fstat(s, file, &st), -EBADF);

  EXPECT_EQ(penstock_link(s, "/d/a", "/d/b"), 0);
  EXPECT_EQ(penstock_stat(s, "/d/b", &st), 0);
  EXPECT_EQ(st.st_nlink, 2u);
  EXPECT_EQ(penstock_symlink(s, "b", "/d/c"), 0);
  char target[16];
  EXPECT_EQ(penstock_readlink(s, "/d/c", target, sizeof target), 1);
  EXPECT_EQ(target[0], 'b');
  EXPECT_EQ(penstock_stat(s, "/d/c", &st), 0);
  EXPECT_TRUE(S_ISREG(st.st_mode));
  EXPECT_EQ(penstock_lstat(s, "/d/c", &st), 0);
  EXPECT_TRUE(S_ISLNK(st.st_mode));
  EXPECT_EQ(penstock_chmod(s, "/d/a", 0600), 0);
  const timespec times[2] = {{100, 5}, {-3, 7}};
  EXPECT_EQ(penstock_utimens(s, "/d/a", times), 0);
  EXPECT_EQ(penstock_stat(s, "/d/a", &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  EXPECT_EQ(st.st_mtim.tv_sec, -3);
  EXPECT_EQ(st.st_mtim.tv_nsec, 7);
  EXPECT_EQ(penstock_rename(s, "/d/a", "/d/e"), 0);
  EXPECT_EQ(penstock_stat(s, "/d/a", &st), -ENOENT);
  EXPECT_EQ(penstock_rmdir(s, "/d"), -ENOTEMPTY);
  for (const char* path : {"/d/b", "/d/c", "/d/e"}) EXPECT_EQ(penstock_unlink(s, path), 0) << path;
  EXPECT_EQ(penstock_unlink(s, "/d/b"), -ENOENT);
  EXPECT_EQ(penstock_rmdir(s, "/d"), 0);
  EXPECT_EQ(penstock_sync(s), 0);
}

TEST_F(Embedded, lists_directories_of_any_size) {
  ASSERT_EQ(penstock_mkdir(client.session, "/d", 0755), 0);
  const std::string tail(200, 'x');
  std::set<std::string> expected;
  for (int i = 0; i < 700; ++i) {
    const std::string name = std::to_string(i) + tail;
    ASSERT_EQ(penstock_symlink(client.session, "t", ("/d/" + name).c_str()), 0);
    expected.insert(name);
  }
  std::set<std::string> seen;
  const auto visit = [](void* context, const char* name, uint64_t inode, unsigned char type) {
    EXPECT_NE(inode, 0u);
    EXPECT_EQ(type, 10);  // DT_LNK
    EXPECT_TRUE(static_cast<std::set<std::string>*>(context)->insert(name).second);
    return 0;
  };
  EXPECT_EQ(penstock_list(client.session, "/d", visit, &seen), 0);
  EXPECT_EQ(seen, expected);
  int count = 0;
  const auto stop = [](void* context, const char*, uint64_t, unsigned char) {
    return ++*static_cast<int*>(context) == 3 ? 1 : 0;
  };
  EXPECT_EQ(penstock_list(client.session, "/d", stop, &count), 0);
  EXPECT_EQ(count, 3);
}

TEST_F(Embedded, answers_bad_names_with_the_errno_of_the_kernel) {
  penstock_session* s = client.session;
  struct stat st {};
  const std::string long_name = "/" + std::string(256, 'x');
  const std::string long_path = "/" + std::string(4095, 'x');
  EXPECT_EQ(penstock_mkdir(s, long_name.c_str(), 0755), -ENAMETOOLONG);
  EXPECT_EQ(penstock_stat(s, long_path.c_str(), &st), -ENAMETOOLONG);
  EXPECT_EQ(penstock_stat(s, "", &st), -ENOENT);
  EXPECT_EQ(penstock_stat(s, "relative", &st), -EINVAL);
  EXPECT_EQ(penstock_stat(s, nullptr, &st), -EINVAL);
  EXPECT_EQ(penstock_stat(s, "/..", &st), 0);
  EXPECT_LT(penstock_mkdir(s, "/a/..", 0755), 0);
  EXPECT_EQ(client.open("/a", O_RDWR | O_APPEND), -EINVAL);
  EXPECT_EQ(client.open("/missing", O_RDONLY), -ENOENT);
  EXPECT_NE(std::string(penstock_last_error()).find("/missing"), std::string::npos);
}

TEST_F(Embedded, applies_the_umask_to_what_it_creates) {
  const mode_t before = ::umask(027);
  ASSERT_EQ(penstock_mkdir(client.session, "/d", 0777), 0);
  const penstock_file file = client.open("/d/f", O_RDWR | O_CREAT, 0666);
  ::umask(before);
  struct stat st {};
  ASSERT_EQ(penstock_stat(client.session, "/d", &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0750u);
  ASSERT_EQ(penstock_fstat(client.session, file, &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0640u);
}

TEST_F(Embedded, keeps_everything_over_close_and_open) {
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  test::fill({client.memory(), 100'000}, 9);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, 100'000)), 100'000);
  penstock_close(client.session);
  client.session = nullptr;

  Client again;
  ASSERT_EQ(again.open_store(scratch.store(), false), 0) << penstock_last_error();
  again.prepare();
  const penstock_file same = again.open("/a", O_RDONLY);
  ASSERT_GE(same, 0);
  EXPECT_EQ(again.run(again.io(PENSTOCK_READ, same, 0, 200'000)), 100'000);
  EXPECT_TRUE(test::is_content({again.memory(), 100'000}, 9));
}

TEST_F(Embedded, refuses_a_second_process_and_names_the_first) {
  Client other;
  EXPECT_EQ(other.open_store(scratch.store()), -EBUSY);
  EXPECT_NE(std::string(penstock_last_error()).find(std::to_string(::getpid())), std::string::npos)
      << penstock_last_error();
}

TEST_F(Embedded, fails_cleanly_in_a_forked_child) {
  const pid_t child = ::fork();
  if (child == 0) {
    struct stat st {};
    const penstock_io io = client.io(PENSTOCK_NOP, 0, 0, 0);
    penstock_completion completion;
    int wrong = 0;
    wrong += penstock_stat(client.session, "/", &st) != -ECHILD ? 1 : 0;
    wrong += penstock_prepare(client.ring, &io) != -ECHILD ? 2 : 0;
    wrong += penstock_wait(client.ring, &completion, 1, 1, PENSTOCK_FOREVER) != -ECHILD ? 4 : 0;
    penstock_close(client.session);
    ::_exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  struct stat st {};
  EXPECT_EQ(penstock_stat(client.session, "/", &st), 0) << "the parent goes on";
}

TEST(OpenStore, refuses_a_directory_that_is_no_store) {
  test::ScratchDirectory scratch;
  Client client;
  EXPECT_EQ(client.open_store(scratch.store(), false), -ENOENT) << penstock_last_error();
  EXPECT_FALSE(std::filesystem::exists(scratch.store()));
  EXPECT_EQ(client.connect(scratch.store()), -ENOENT);
  EXPECT_EQ(client.connect(scratch.path()), -ENOENT);
  EXPECT_NE(std::string(penstock_last_error()).find(scratch.path()), std::string::npos);
}

TEST(OpenStore, ignores_calls_without_a_session) {
  penstock_close(nullptr);
  struct stat st {};
  EXPECT_EQ(penstock_stat(nullptr, "/", &st), -EINVAL);
  EXPECT_EQ(penstock_prepare(nullptr, nullptr), -EINVAL);
  EXPECT_EQ(penstock_region_release(nullptr), -EINVAL);
  EXPECT_EQ(penstock_region_base(nullptr), nullptr);
}

}  // namespace
}  // namespace penstock::api
