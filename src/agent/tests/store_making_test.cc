// The process that makes a store is killed, at each of its steps.
#include "raw_session.h"
#include "store_directory.h"

#include <csignal>
#include <set>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace penstock::agent {
namespace {

namespace fs = std::filesystem;

// System calls that leave something behind.
bool changes_something(uint64_t number) {
  static const std::set<uint64_t> kChanging = {
      SYS_openat,  SYS_write,  SYS_pwrite64, SYS_renameat2, SYS_unlinkat, SYS_ftruncate,
#ifdef SYS_rename
      SYS_rename,  SYS_mkdir,  SYS_unlink,   SYS_rmdir,
#endif
      SYS_mkdirat, SYS_fchmod, SYS_flock,    SYS_fsync,
  };
  return kChanging.contains(number);
}

enum class End : uint8_t { killed, finished, refused };

// Runs `work` in a process of its own, which is killed before its changing system call number
// `step`, counted from 0.
End run_until(int step, const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(2);
    ::raise(SIGSTOP);
    ::_exit(work() ? 0 : 1);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return End::refused;
  if (!WIFSTOPPED(status)) return End::refused;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  int count = 0;
  while (::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0) {
    if (::waitpid(child, &status, 0) != child) return End::refused;
    if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? End::finished : End::refused;
    if (WIFSIGNALED(status)) return End::refused;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    __ptrace_syscall_info call{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call) <= 0) break;
    if (call.op != PTRACE_SYSCALL_INFO_ENTRY || !changes_something(call.entry.nr)) continue;
    if (count++ < step) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return End::killed;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return End::refused;
}

class Making : public testing::Test {
 protected:
  bool make() const {
    AgentConfig config;
    config.directory = scratch.store();
    auto store = StoreDirectory::open(config);
    if (!store) {
      std::fprintf(stderr, "%s\n", store.error().message.c_str());
      return false;
    }
    return (*store)->finish_making().has_value();
  }
  ScratchDirectory scratch;
};

TEST_F(Making, goes_on_wherever_it_was_killed) {
  if (run_until(0, [] { return true; }) == End::refused) {
    GTEST_SKIP() << "processes may not be traced here";
  }
  constexpr int kStepsMax = 500;
  int step = 0;
  for (; step < kStepsMax; ++step) {
    const End first = run_until(step, [this] { return make(); });
    ASSERT_NE(first, End::refused) << step;
    if (first == End::finished) break;
    // Some that come after it are killed as well, early in their own cleaning.
    if (step % 3 == 0) {
      ASSERT_NE(run_until(step % 12, [this] { return make(); }), End::refused) << step;
    }
    ASSERT_TRUE(make()) << step;
    for (const char* rest : {"penstock.making", "penstock.making.new", "secret.new", "LOCK.new"}) {
      ASSERT_FALSE(fs::exists(scratch.store() + "/" + rest)) << rest << " after step " << step;
    }
    fs::remove_all(scratch.store());
  }
  EXPECT_GT(step, 15);
  EXPECT_LT(step, kStepsMax);
}

}  // namespace
}  // namespace penstock::agent
