// What is particular to the disk on io_uring; the contract that they share with the simulated one
// is tested in src/sim/tests/disk_conformance_test.cc.
#include "node.h"

#include <atomic>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace penstock::disk {
namespace {

TEST(UringDisk, a_batch_of_reads_costs_one_system_call_and_no_allocation) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  const DiskFile file = make_written_file(node, directory.path() + "/data");
  constexpr int kBatch = 16;
  const Memory memory = aligned_memory(kBatch * 4096);
  int completed = 0;
  std::vector<CountingRead> reads(kBatch);
  for (int i = 0; i < kBatch; ++i) {
    reads[i].file = file;
    reads[i].offset = static_cast<uint64_t>(i) * 8192;
    reads[i].memory = {memory.get() + i * 4096, 4096, engine::kNoBuffer, {}};
    reads[i].completed = &completed;
    reads[i].completion = [](Op& op) { ++*static_cast<CountingRead&>(op).completed; };
  }
  uint64_t allocated = 0;
  for (int round = 0; round < 50; ++round) {
    completed = 0;
    const uint64_t before = test::allocations();
    for (CountingRead& read : reads) node.disk->submit(read);
    EXPECT_EQ(completed, 0);
    const uint64_t counted = test::allocations();
    const uint64_t enters = counter("disk.enter");
    const uint64_t per_count = test::allocations() - counted;
    // One turn and one sleep: they submit all and wait for some.
    node.loop->poll_or_park(engine::kNever);
    EXPECT_EQ(counter("disk.enter") - enters, 1u);
    while (completed < kBatch) node.loop->poll_or_park(engine::kNever);
    if (round > 0) allocated += test::allocations() - before - 2 * per_count;
    for (const CountingRead& read : reads) EXPECT_TRUE(read.status.ok());
  }
  // Nothing but the look at the counters, twice a round, allocates.
  EXPECT_EQ(allocated, 0u);
  node.disk->close(file);
}

TEST(UringDisk, a_busy_loop_submits_in_the_second_turn_and_completes_without_sleeping) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  const DiskFile file = make_written_file(node, directory.path() + "/data");
  const Memory memory = aligned_memory(4096);
  int completed = 0;
  CountingRead read;
  read.file = file;
  read.memory = {memory.get(), 4096, engine::kNoBuffer, {}};
  read.completed = &completed;
  read.completion = [](Op& op) { ++*static_cast<CountingRead&>(op).completed; };
  node.disk->submit(read);
  const auto limit = engine::system_clock().now() + test::kPatience;
  while (completed == 0 && engine::system_clock().now() < limit) node.loop->poll();
  EXPECT_EQ(completed, 1);
  node.disk->close(file);
}

TEST(UringDisk, large_operations_are_on_their_way_before_the_turn_ends) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  const DiskFile file = make_written_file(node, directory.path() + "/data");
  constexpr uint64_t kPart = 64 * kKiB;
  const Memory memory = aligned_memory(8 * kPart);
  int completed = 0;
  std::vector<CountingRead> writes(8);
  const uint64_t before = counter("disk.enter");
  for (size_t i = 0; i < writes.size(); ++i) {
    CountingRead& write = writes[i];
    write.kind = DiskOpKind::write;
    write.file = file;
    write.offset = i * kPart;
    write.memory = {memory.get() + i * kPart, kPart, engine::kNoBuffer, {}};
    write.completed = &completed;
    write.completion = [](Op& op) { ++*static_cast<CountingRead&>(op).completed; };
    node.disk->submit(write);
    // Each 256 KiB.
    EXPECT_EQ(counter("disk.enter") - before, (i + 1) / 4);
  }
  EXPECT_EQ(completed, 0);
  while (completed < 8) node.loop->poll_or_park(engine::kNever);
  for (const CountingRead& write : writes) EXPECT_TRUE(write.status.ok());
  node.disk->close(file);
}

// The writes of one file in `pieces` of memory, one behind the other from `offset` on.
std::vector<CountingRead> writes_in_a_row(DiskFile file, uint64_t offset,
                                          const std::vector<std::byte*>& pieces, int* completed) {
  std::vector<CountingRead> writes(pieces.size());
  for (size_t i = 0; i < writes.size(); ++i) {
    writes[i].kind = DiskOpKind::write;
    writes[i].file = file;
    writes[i].offset = offset + i * 4096;
    writes[i].memory = {pieces[i], 4096, engine::kNoBuffer, {}};
    writes[i].completed = completed;
    writes[i].completion = [](Op& op) { ++*static_cast<CountingRead&>(op).completed; };
  }
  return writes;
}

TEST(UringDisk, small_writes_in_a_row_go_together_and_each_lands_in_its_place) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  const DiskFile file = make_written_file(node, directory.path() + "/data");
  const DiskFile other = make_written_file(node, directory.path() + "/other");
  constexpr int kWrites = 150;
  const Memory memory = aligned_memory(kWrites * 4096);
  std::vector<std::byte*> pieces;
  for (int i = 0; i < kWrites; ++i) {
    // Not in the order of their places in the file.
    pieces.push_back(memory.get() + (i * 7 % kWrites) * 4096);
    std::memset(pieces.back(), i + 1, 4096);
  }
  int completed = 0;
  std::vector<CountingRead> writes = writes_in_a_row(file, 8192, pieces, &completed);
  // One that follows, but elsewhere; and one that does not follow.
  writes[40].file = other;
  writes[41].offset = 0;
  const uint64_t before = counter("disk.joined");
  for (CountingRead& write : writes) node.disk->submit(write);
  // 40, then one, one, and the rest in two of 64 at most.
  EXPECT_EQ(counter("disk.joined") - before, 39u + 63 + 43);
  EXPECT_EQ(completed, 0);
  while (completed < kWrites) node.loop->poll_or_park(engine::kNever);
  const Memory found = aligned_memory(4096);
  for (const CountingRead& write : writes) {
    EXPECT_TRUE(write.status.ok());
    DiskOp read;
    read.file = write.file;
    read.offset = write.offset;
    read.memory = {found.get(), 4096, engine::kNoBuffer, {}};
    ASSERT_TRUE(node.run(read).ok());
    EXPECT_EQ(std::memcmp(found.get(), write.memory.data, 4096), 0);
  }
}

TEST(UringDisk, a_write_that_fails_takes_none_of_those_with_it_that_went_together_with_it) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  const DiskFile file = make_written_file(node, directory.path() + "/data");
  const Memory memory = aligned_memory(20 * 4096);
  std::memset(memory.get(), 7, 20 * 4096);
  void* const gone =
      ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  for (const size_t bad : {0, 9, 19}) {
    std::vector<std::byte*> pieces;
    for (int i = 0; i < 20; ++i) pieces.push_back(memory.get() + i * 4096);
    pieces[bad] = static_cast<std::byte*>(gone);
    int completed = 0;
    std::vector<CountingRead> writes = writes_in_a_row(file, 0, pieces, &completed);
    const uint64_t before = counter("disk.joined");
    for (CountingRead& write : writes) node.disk->submit(write);
    EXPECT_EQ(counter("disk.joined") - before, 19u);
    while (completed < 20) node.loop->poll_or_park(engine::kNever);
    for (size_t i = 0; i < writes.size(); ++i) {
      EXPECT_EQ(writes[i].status.ok(), i != bad) << i << " of " << bad;
    }
  }
  ::munmap(gone, 4096);
}

TEST(UringDisk, more_operations_than_the_limit_wait_and_all_complete) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  const DiskFile file = make_file(node, directory.path() + "/data", kMiB);
  const Memory memory = aligned_memory(4096);
  int completed = 0;
  std::vector<CountingRead> reads(3 * engine::kDiskOpsMax + 7);
  for (CountingRead& read : reads) {
    read.file = file;
    read.memory = {memory.get(), 4096, engine::kNoBuffer, {}};
    read.completed = &completed;
    read.completion = [](Op& op) { ++*static_cast<CountingRead&>(op).completed; };
    node.disk->submit(read);
  }
  const auto limit = engine::system_clock().now() + std::chrono::seconds(60);
  while (completed < static_cast<int>(reads.size()) && engine::system_clock().now() < limit) {
    node.loop->poll_or_park(limit);
  }
  ASSERT_EQ(completed, static_cast<int>(reads.size()));
  for (const CountingRead& read : reads) EXPECT_TRUE(read.status.ok());
  node.disk->close(file);
}

TEST(UringDisk, the_loop_moves_from_thread_to_thread) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  const DiskFile file = make_file(node, directory.path() + "/data", kMiB);
  const Memory memory = aligned_memory(8192);
  ASSERT_TRUE(node.disk->register_buffer(engine::BufferId(3), {memory.get(), 8192}).ok());
  for (int round = 0; round < 3; ++round) {
    std::thread([&] {
      memory.get()[0] = static_cast<std::byte>(round + 1);
      DiskOp write;
      write.kind = DiskOpKind::write;
      write.file = file;
      write.memory = {memory.get(), 4096, engine::BufferId(3), {}};
      EXPECT_TRUE(node.run(write).ok());
    }).join();
    DiskOp read;
    read.file = file;
    read.memory = {memory.get() + 4096, 4096, engine::BufferId(3), {}};
    EXPECT_TRUE(node.run(read).ok());
    EXPECT_EQ(memory.get()[4096], static_cast<std::byte>(round + 1));
  }
  std::thread([&] {
    node.disk->unregister_buffer(engine::BufferId(3));
    node.disk->close(file);
  }).join();
}

TEST(UringDisk, operations_in_flight_outlive_the_thread_that_submitted_them) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  const DiskFile file = make_written_file(node, directory.path() + "/data");
  const DiskFile plain = *node.disk->open(directory.path() + "/data", {.direct = false});
  constexpr int kOps = 300;
  const Memory memory = aligned_memory(kOps * 4096);
  for (const int turns : {0, 1, 2, 3}) {
    std::memset(memory.get(), 0, kOps * 4096);
    int completed = 0;
    std::vector<CountingRead> ops(kOps);
    std::thread([&] {
      for (int i = 0; i < kOps; ++i) {
        ops[i].kind = i % 10 == 9 ? DiskOpKind::sync : DiskOpKind::read;
        ops[i].file = i % 2 == 0 ? file : plain;
        ops[i].offset = static_cast<uint64_t>(i % 256) * 4096;
        ops[i].memory = {memory.get() + i * 4096, 4096, engine::kNoBuffer, {}};
        ops[i].completed = &completed;
        ops[i].completion = [](Op& op) { ++*static_cast<CountingRead&>(op).completed; };
        node.disk->submit(ops[i]);
        // Some are submitted, some wait in the ring, and the owner goes.
        if (i == 150) {
          for (int turn = 0; turn < turns; ++turn) node.loop->poll();
        }
      }
    }).join();
    const auto limit = engine::system_clock().now() + test::kPatience;
    while (completed < kOps && engine::system_clock().now() < limit) node.loop->poll_or_park(limit);
    ASSERT_EQ(completed, kOps);
    for (int i = 0; i < kOps; ++i) {
      EXPECT_TRUE(ops[i].status.ok()) << i << " " << ops[i].status.name();
      if (ops[i].kind == DiskOpKind::read) {
        EXPECT_EQ(memory.get()[i * 4096 + 4095], std::byte{1});
      }
    }
  }
  node.disk->close(plain);
  node.disk->close(file);
}

TEST(UringDisk, other_threads_wake_a_sleeping_loop_also_after_it_has_moved) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  for (int owners = 0; owners < 3; ++owners) {
    bool quit = false;  // only the owner looks at it
    std::thread owner([&] {
      while (!quit) node.loop->poll_or_park(engine::kNever);
      while (node.loop->poll()) {
      }
    });
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(engine::thread_caller()
                      .call(*node.loop,
                            [&](Op& done) {
                              quit = i == 999;
                              node.loop->complete(done, Code::ok);
                            })
                      .ok());
    }
    owner.join();
  }
}

TEST(UringDisk, buffers_of_more_than_a_gigabyte_are_registered_in_pieces) {
  NEEDS_URING();
  if (::geteuid() != 0) GTEST_SKIP() << "an ordinary user may not lock this much memory";
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  // The same 2 MiB again and again, so that it costs addresses only.
  constexpr uint64_t kPiece = 2 * kMiB;
  constexpr uint64_t kPieces = kGiB / kPiece + 1;
  const UniqueFd backing(::memfd_create("buffer", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(backing.get(), kPiece), 0);
  void* const whole = ::mmap(nullptr, kPieces * kPiece, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(whole, MAP_FAILED);
  auto* const memory = static_cast<std::byte*>(whole);
  for (uint64_t i = 0; i < kPieces; ++i) {
    ASSERT_NE(::mmap(memory + i * kPiece, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                     backing.get(), 0),
              MAP_FAILED);
  }
  const engine::BufferId id(7);
  ASSERT_TRUE(node.disk->register_buffer(id, {memory, kPieces * kPiece}).ok());
  const DiskFile file = make_written_file(node, directory.path() + "/data");
  // In the first piece, across the border, and in the second.
  for (const uint64_t at : {uint64_t{0}, kGiB - 8192, kGiB, kGiB + kMiB}) {
    std::memset(memory + at, 0, 16384);
    DiskOp read;
    read.file = file;
    read.memory = {memory + at, 16384, id, engine::MemoryKind::host};
    EXPECT_TRUE(node.run(read).ok()) << at;
    EXPECT_EQ(memory[at], std::byte{1});
    EXPECT_EQ(memory[at + 16383], std::byte{1});
  }
  node.disk->unregister_buffer(id);
  node.disk->close(file);
  ::munmap(whole, kPieces * kPiece);
}

TEST(UringDisk, writes_to_a_watched_eventfd_end_sleeps_also_after_the_loop_has_moved) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  engine::Parker& parker = node.driver->parker();
  const UniqueFd events[2] = {UniqueFd(::eventfd(0, EFD_CLOEXEC)),
                              UniqueFd(::eventfd(0, EFD_CLOEXEC))};
  for (const UniqueFd& event : events) ASSERT_TRUE(parker.watch(event.get()).ok());
  // A sleep that nothing ended but its deadline has missed a write.
  std::atomic<bool> overslept{false};
  const auto sleep = [&] {
    const auto deadline = engine::system_clock().now() + test::kPatience;
    node.loop->poll_or_park(deadline);
    if (engine::system_clock().now() >= deadline) overslept = true;
  };
  for (int owners = 0; owners < 3; ++owners) {
    constexpr int kWrites = 500;
    std::atomic<int> written{0}, seen{0};
    std::thread owner([&] {
      for (int i = 1; i <= kWrites; ++i) {
        while (written.load() < i) sleep();
        seen.store(i);
      }
      // The entries of a thread that ends are gone before another takes over.
      while (node.loop->poll()) {
      }
    });
    for (int i = 1; i <= kWrites; ++i) {
      written.store(i);
      ASSERT_EQ(::eventfd_write(events[i % 2].get(), 1), 0);
      while (seen.load() < i) std::this_thread::yield();
    }
    owner.join();
    ASSERT_FALSE(overslept);
  }
}

TEST(UringDisk, a_forgotten_eventfd_ends_no_sleep_and_its_place_serves_another) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  engine::Parker& parker = node.driver->parker();
  const auto after = [](std::chrono::milliseconds time) {
    return engine::system_clock().now() + time;
  };
  for (int round = 0; round < 3; ++round) {
    const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
    ASSERT_TRUE(parker.watch(event.get()).ok());
    ASSERT_EQ(::eventfd_write(event.get(), 1), 0);
    const auto in_a_minute = after(std::chrono::minutes(1));
    parker.park(in_a_minute);
    EXPECT_LT(engine::system_clock().now(), in_a_minute);
    parker.forget(event.get());
    // Until what was under way when it was forgotten is over.
    while (node.loop->poll()) {
    }
    parker.park(after(std::chrono::milliseconds(20)));
    node.loop->poll();
    ASSERT_EQ(::eventfd_write(event.get(), 1), 0);
    const auto deadline = after(std::chrono::milliseconds(30));
    parker.park(deadline);
    EXPECT_GE(engine::system_clock().now(), deadline);
    node.loop->poll();
  }
}

TEST(UringDisk, parks_until_the_deadline) {
  NEEDS_URING();
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  bool fired = false;
  engine::Timer timer;
  timer.owner = &fired;
  timer.completion = [](Op& op) { op.owner_as<bool>() = true; };
  const auto start = engine::system_clock().now();
  const uint64_t enters = counter("disk.enter");
  node.loop->start(timer, start + std::chrono::milliseconds(30));
  while (!fired) node.loop->poll_or_park(engine::kNever);
  EXPECT_GE(engine::system_clock().now() - start, std::chrono::milliseconds(30));
  // Asleep, not spinning.
  EXPECT_LE(counter("disk.enter") - enters, 4u);
}

TEST(UringDisk, buffers_beyond_the_memory_lock_limit_are_refused_and_work_all_the_same) {
  NEEDS_URING();
  // Root may lock what it likes, so an ordinary user tries it in a process of its own.
  const test::ScratchDirectory directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
  const int result = test::in_child([&] {
    const rlimit limit{8 * kMiB, 8 * kMiB};
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 10;
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 11;
    Node node({.root = directory.path()});
    if (node.disk->facts().backend != "io_uring") return 12;
    const Memory memory = aligned_memory(64 * kMiB);
    const Status status =
        node.disk->register_buffer(engine::BufferId(0), {memory.get(), 64 * kMiB});
    if (status != Status(Code::no_memory)) return 13;
    if (counter("disk.buffer_refused") != 1) return 14;
    const DiskFile file = make_file(node, directory.path() + "/data", kMiB);
    DiskOp read;
    read.file = file;
    read.memory = {memory.get(), kMiB, engine::BufferId(0), {}};
    if (!node.run(read).ok()) return 15;
    // One that fits is taken.
    if (!node.disk->register_buffer(engine::BufferId(1), {memory.get(), kMiB}).ok()) return 16;
    node.disk->unregister_buffer(engine::BufferId(1));
    node.disk->close(file);
    return 0;
  });
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace penstock::disk
