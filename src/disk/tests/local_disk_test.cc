// What is particular to the real disks; the contract that they share with the simulated one is
// tested in src/sim/tests/disk_conformance_test.cc.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "penstock/disk.h"

// Counts the allocations of this program.
namespace {
std::atomic<uint64_t> allocations{0};
}

// noinline keeps the compiler from pairing these with the library's own.
[[gnu::noinline]] void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace penstock::disk {
namespace {

using engine::DiskFile;
using engine::DiskOp;
using engine::DiskOpKind;
using engine::Loop;
using engine::Op;

class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& parent = testing::TempDir()) {
    path_ = parent + "/penstock-disk-XXXXXX";
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~TemporaryDirectory() { (void)!std::system(("rm -rf '" + path_ + "'").c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Node {
  explicit Node(const DiskConfig& config) {
    auto created = DiskDriver::create(config);
    EXPECT_TRUE(created.has_value());
    driver = std::move(*created);
    loop = std::make_unique<Loop>(engine::system_clock(), random, driver->parker());
    disk = &driver->attach(*loop);
  }
  Status run(DiskOp& op) {
    engine::PollingCaller caller;
    return caller.call(*loop, [&](Op& done) {
      op.owner = &done;
      op.completion = [](Op& self) {
        Op& end = self.owner_as<Op>();
        end.status = self.status;
        end.completion(end);
      };
      disk->submit(op);
    });
  }
  engine::SeededRandom random{1};
  std::unique_ptr<DiskDriver> driver;
  std::unique_ptr<Loop> loop;
  engine::Disk* disk = nullptr;
};

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, FreeMemory>;
Memory aligned_memory(size_t size) {
  return Memory(static_cast<std::byte*>(std::aligned_alloc(4096, size)));
}

uint64_t counter(const std::string& name) {
  for (const auto& sample : metrics::snapshot()) {
    if (sample.name == name) return sample.value;
  }
  return 0;
}

bool has_uring() {
  TemporaryDirectory directory;
  Node node({.root = directory.path()});
  return node.disk->facts().backend == "io_uring";
}

#define NEEDS_URING() \
  if (!has_uring()) GTEST_SKIP() << "this machine refuses io_uring"

DiskFile make_file(Node& node, const std::string& path, uint64_t size) {
  auto opened = node.disk->open(path, {.create = true});
  EXPECT_TRUE(opened.has_value());
  DiskOp op;
  op.kind = DiskOpKind::allocate;
  op.file = *opened;
  op.length = size;
  EXPECT_TRUE(node.run(op).ok());
  return *opened;
}

// Of data that has been written, so that reading it takes the drive and does not end at once.
DiskFile make_written_file(Node& node, const std::string& path) {
  const DiskFile file = make_file(node, path, kMiB);
  const Memory memory = aligned_memory(kMiB);
  std::memset(memory.get(), 1, kMiB);
  DiskOp write;
  write.kind = DiskOpKind::write;
  write.file = file;
  write.memory = {memory.get(), kMiB, engine::kNoBuffer, {}};
  EXPECT_TRUE(node.run(write).ok());
  DiskOp sync;
  sync.kind = DiskOpKind::sync;
  sync.file = file;
  EXPECT_TRUE(node.run(sync).ok());
  return file;
}

struct CountingRead : DiskOp {
  int* completed = nullptr;
};

TEST(UringDisk, a_batch_of_reads_costs_one_system_call_and_no_allocation) {
  NEEDS_URING();
  TemporaryDirectory directory;
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
    const uint64_t before = allocations.load();
    for (CountingRead& read : reads) node.disk->submit(read);
    EXPECT_EQ(completed, 0);
    const uint64_t counted = allocations.load();
    const uint64_t enters = counter("disk.enter");
    const uint64_t per_count = allocations.load() - counted;
    // One turn and one sleep: they submit all and wait for some.
    node.loop->poll_or_park(engine::kNever);
    EXPECT_EQ(counter("disk.enter") - enters, 1u);
    while (completed < kBatch) node.loop->poll_or_park(engine::kNever);
    if (round > 0) allocated += allocations.load() - before - 2 * per_count;
    for (const CountingRead& read : reads) EXPECT_TRUE(read.status.ok());
  }
  // Nothing but the look at the counters, twice a round, allocates.
  EXPECT_EQ(allocated, 0u);
  node.disk->close(file);
}

TEST(UringDisk, a_busy_loop_submits_in_the_second_turn_and_completes_without_sleeping) {
  NEEDS_URING();
  TemporaryDirectory directory;
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
  const auto limit = engine::system_clock().now() + std::chrono::seconds(20);
  while (completed == 0 && engine::system_clock().now() < limit) node.loop->poll();
  EXPECT_EQ(completed, 1);
  node.disk->close(file);
}

TEST(UringDisk, more_operations_than_the_limit_wait_and_all_complete) {
  NEEDS_URING();
  TemporaryDirectory directory;
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
  TemporaryDirectory directory;
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
  TemporaryDirectory directory;
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
    const auto limit = engine::system_clock().now() + std::chrono::seconds(20);
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
  TemporaryDirectory directory;
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
  TemporaryDirectory directory;
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

TEST(UringDisk, parks_until_the_deadline) {
  NEEDS_URING();
  TemporaryDirectory directory;
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
  TemporaryDirectory directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{8 * kMiB, 8 * kMiB};
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) ::_exit(10);
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(11);
    Node node({.root = directory.path()});
    if (node.disk->facts().backend != "io_uring") ::_exit(12);
    const Memory memory = aligned_memory(64 * kMiB);
    const Status status =
        node.disk->register_buffer(engine::BufferId(0), {memory.get(), 64 * kMiB});
    if (status != Status(Code::no_memory)) ::_exit(13);
    if (counter("disk.buffer_refused") != 1) ::_exit(14);
    const DiskFile file = make_file(node, directory.path() + "/data", kMiB);
    DiskOp read;
    read.file = file;
    read.memory = {memory.get(), kMiB, engine::BufferId(0), {}};
    if (!node.run(read).ok()) ::_exit(15);
    // One that fits is taken.
    if (!node.disk->register_buffer(engine::BufferId(1), {memory.get(), kMiB}).ok()) ::_exit(16);
    node.disk->unregister_buffer(engine::BufferId(1));
    node.disk->close(file);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// As containers do it: io_uring_setup fails with EPERM.
bool forbid_uring() {
  const sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(code), const_cast<sock_filter*>(code)};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(DiskDriver, serves_with_threads_where_io_uring_is_forbidden) {
  TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!forbid_uring()) ::_exit(10);
    log::set_level(log::Level::off);
    {
      Node node({.root = directory.path()});
      const engine::DiskFacts& facts = node.disk->facts();
      if (facts.backend != "threads" || facts.route != engine::Route::disk_threads) ::_exit(11);
      if (facts.reason.find("io_uring_setup: Operation not permitted") != 0) ::_exit(12);
      const DiskFile file = make_file(node, directory.path() + "/data", kMiB);
      const Memory memory = aligned_memory(8192);
      memory.get()[0] = std::byte{42};
      DiskOp write;
      write.kind = DiskOpKind::write;
      write.file = file;
      write.memory = {memory.get(), 4096, engine::kNoBuffer, {}};
      if (!node.run(write).ok()) ::_exit(13);
      DiskOp read;
      read.file = file;
      read.memory = {memory.get() + 4096, 4096, engine::kNoBuffer, {}};
      if (!node.run(read).ok() || memory.get()[4096] != std::byte{42}) ::_exit(14);
      node.disk->close(file);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(DiskDriver, refuses_a_root_that_is_no_directory_with_a_message_that_names_it) {
  TemporaryDirectory directory;
  auto missing = DiskDriver::create({.root = directory.path() + "/none"});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().status, Status(Code::not_found));
  EXPECT_NE(missing.error().message.find("/none"), std::string::npos);
  ASSERT_NE(std::system(("touch " + directory.path() + "/file").c_str()), -1);
  auto file = DiskDriver::create({.root = directory.path() + "/file"});
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().status, Status(Code::not_directory));
}

TEST(DiskDriver, leaves_nothing_behind_in_the_directory) {
  TemporaryDirectory directory;
  {
    Node node({.root = directory.path()});
    auto lock = node.disk->lock_directory(directory.path());
    ASSERT_TRUE(lock.has_value());
  }
  Node node({.root = directory.path()});
  auto names = node.disk->list(directory.path());
  ASSERT_TRUE(names.has_value());
  EXPECT_TRUE(names->empty());
}

TEST(DiskDriver, says_why_a_directory_is_not_direct) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no tmpfs at /dev/shm";
  TemporaryDirectory directory("/dev/shm");
  Node node({.root = directory.path()});
  EXPECT_FALSE(node.disk->facts().direct);
  EXPECT_NE(node.disk->facts().direct_reason.find("tmpfs"), std::string::npos);
  EXPECT_EQ(node.disk->facts().alignment, 1u);
}

TEST(LocalDisk, a_locked_directory_is_in_use_for_another_process) {
  TemporaryDirectory directory;
  Node node({.root = directory.path()});
  auto lock = node.disk->lock_directory(directory.path());
  ASSERT_TRUE(lock.has_value());
  const pid_t child = ::fork();
  if (child == 0) {
    Node other({.root = directory.path(), .force_threads = true, .thread_count = 1});
    auto second = other.disk->lock_directory(directory.path());
    ::_exit(!second.has_value() && second.error() == Status(Code::in_use) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace penstock::disk
