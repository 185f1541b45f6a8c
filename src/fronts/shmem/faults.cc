#include "faults.h"

#include "limits.h"
#include "process.h"

#include <cstdio>
#include <fmt/core.h>
#include <unistd.h>

namespace penstock::shmem {
namespace {

// By this PE before its end; a child that it forked would write the same again. Not what another
// thread holds, which may wait for as long as it likes.
void write_what_was_printed() {
  if (::ftrylockfile(stdout) != 0) return;
  ::fflush_unlocked(stdout);
  ::funlockfile(stdout);
}

[[noreturn]] void end_job(int code, const char* call, const std::string& what, bool is_told) {
  Process& own = process();
  const auto* const group = current_group.load(std::memory_order_acquire);
  const std::string who = group == nullptr ? "" : fmt::format("PE {}: ", group->me());
  if (is_told) {
    const std::string line = fmt::format("penstock: {}{}: {}\n", who, call, what);
    // One write: lines of several PEs do not mix.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }
  if (own.member != nullptr && own.pid == ::getpid()) {
    own.member->abort(code, call);
    write_what_was_printed();
  }
  ::_exit(code);
}

std::string described(const symm::Group& group, const Asked& asked) {
  switch (group.fault_of(asked.address, asked.bytes, asked.pe)) {
    case symm::Fault::no_such_pe:
      return fmt::format("there is no PE {}: PEs are 0 to {}", static_cast<int32_t>(asked.pe),
                         group.size() - 1);
    case symm::Fault::not_symmetric:
      return fmt::format(
          "PE {}, address {}: not symmetric (neither of shmem_malloc() nor a global or static "
          "variable of the program)",
          asked.pe, asked.address);
    case symm::Fault::beyond_its_end:
      return fmt::format(
          "PE {}, address {}: {} bytes from there reach beyond the end of symmetric memory",
          asked.pe, asked.address, asked.bytes);
    case symm::Fault::none:
      break;
  }
  return fmt::format("PE {}, address {}: not a multiple of {}", asked.pe, asked.address,
                     asked.alignment);
}

}  // namespace

void fault(const char* call, const std::string& what) {
  end_job(limits::kFaultExitCode, call, what, true);
}

void fault_outside(const char* call) {
  fault(call,
        process().was_finalized ? "called after shmem_finalize()" : "called before shmem_init()");
}

void fault_pe(const char* call, int64_t pe, uint32_t size) {
  fault(call, fmt::format("there is no PE {}: PEs are 0 to {}", pe, size - 1));
}

void check_asked(const char* call, Status status, const Asked& asked) {
  if (status.code() != Code::invalid_argument) fault_status(call, status);
  const symm::Group& all = group(call);
  if (asked.bytes == 0 && asked.pe < all.size()) return;
  fault(call, described(all, asked));
}

void fault_status(const char* call, Status status) {
  Process& own = process();
  const symm::Group& all = group(call);
  if (status.code() == Code::peer_gone || status.code() == Code::cancelled) {
    // All PEs find the same: the next one tells. Who ended the job on purpose has told. That one
    // has left by itself is the end for whoever finds it first: each tells.
    const auto end = own.member->first_end();
    const std::optional<uint32_t> gone = all.first_gone();
    const bool is_told =
        gone && (!end || (end->how != job::How::aborted && (*gone + 1) % all.size() == all.me()));
    const std::string what =
        gone ? fmt::format("PE {} has {}, which this waits for", *gone, end ? "ended" : "finalized")
             : "the job was ended";
    end_job(own.exit_code_of_end(), call, what, is_told);
  }
  fault(call, fmt::format("failed: {}", status.name()));
}

}  // namespace penstock::shmem
