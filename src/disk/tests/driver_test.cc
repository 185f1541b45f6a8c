// What the driver makes of a machine: which backend, which root, what it leaves behind.
#include "node.h"

#include <cstddef>
#include <fstream>
#include <iterator>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <optional>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::disk {
namespace {

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
  const test::ScratchDirectory directory;
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
  const test::ScratchDirectory directory;
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
  const test::ScratchDirectory directory;
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
  const test::ScratchDirectory directory("/dev/shm");
  Node node({.root = directory.path()});
  EXPECT_FALSE(node.disk->facts().direct);
  EXPECT_NE(node.disk->facts().direct_reason.find("tmpfs"), std::string::npos);
  EXPECT_EQ(node.disk->facts().alignment, 1u);
}

// How often the drive below `directory` was told to flush its cache, by anybody; nothing where the
// kernel does not tell, the drive has no such cache, or it writes through it without a flush (FUA).
std::optional<uint64_t> flushes_below(const std::string& directory) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) return std::nullopt;
  const std::string device =
      fmt::format("/sys/dev/block/{}:{}", ::major(info.st_dev), ::minor(info.st_dev));
  std::string cache;
  std::string writes_through;
  std::getline(std::ifstream(device + "/queue/write_cache") >> std::ws, cache);
  std::getline(std::ifstream(device + "/queue/fua") >> std::ws, writes_through);
  if (cache != "write back" || writes_through == "1") return std::nullopt;
  std::ifstream stat(device + "/stat");
  constexpr int kFlushesField = 16;
  uint64_t value = 0;
  for (int field = 0; field < kFlushesField; ++field) stat >> value;
  return stat ? std::optional(value) : std::nullopt;
}

TEST(LocalDisk, each_durable_write_flushes_the_drive) {
  const test::ScratchDirectory directory;
  if (!flushes_below(directory.path())) GTEST_SKIP() << "the kernel does not tell of flushes here";
  for (const bool threads : {false, true}) {
    Node node({.root = directory.path(), .force_threads = threads});
    const DiskFile file = make_written_file(node, directory.path() + (threads ? "/a" : "/b"));
    const Memory memory = aligned_memory(4096);
    std::memset(memory.get(), 7, 4096);
    DiskOp write;
    write.kind = DiskOpKind::write;
    write.file = file;
    write.memory = {memory.get(), 4096, engine::kNoBuffer, {}};
    write.durable = true;
    constexpr uint64_t kWrites = 16;
    const uint64_t before = *flushes_below(directory.path());
    for (uint64_t i = 0; i < kWrites; ++i) ASSERT_TRUE(node.run(write).ok());
    EXPECT_GE(*flushes_below(directory.path()) - before, kWrites) << (threads ? "threads" : "ring");
    node.disk->close(file);
  }
}

TEST(LocalDisk, a_locked_directory_is_in_use_for_another_process) {
  const test::ScratchDirectory directory;
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
