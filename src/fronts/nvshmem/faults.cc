#include "faults.h"

#include "limits.h"
#include "penstock_device/symm/address.h"
#include "process.h"

#include <atomic>
#include <cstdio>
#include <fmt/core.h>
#include <unistd.h>

namespace penstock::nvshmem {
namespace {

// What a kernel of this process has told, if one has.
device::SymmReport kernels_report() {
  const OnDevice* const there = current_device.load(std::memory_order_acquire);
  if (there == nullptr || there->streams->failure() == device::kSymmNothing) return {};
  return *reinterpret_cast<const device::SymmReport*>(there->heap->state().failure);
}

// By this PE before its end; a child that it forked would write the same again. Not what another
// thread holds, which may wait for as long as it likes.
void write_what_was_printed() {
  if (::ftrylockfile(stdout) != 0) return;
  ::fflush_unlocked(stdout);
  ::funlockfile(stdout);
}

[[noreturn]] void end_job(int code, const char* call, const std::string& what, bool is_told) {
  // Of several threads that find something wrong the first one ends all.
  static std::atomic_flag ends;
  while (ends.test_and_set()) ::pause();
  Process& own = process();
  if (const device::SymmReport report = kernels_report(); report.why == device::kSymmAskedToEnd) {
    code = report.pe;  // what it gave to nvshmem_global_exit()
    is_told = false;
  }
  const auto* const all = current_group.load(std::memory_order_acquire);
  const std::string who = all == nullptr ? "" : fmt::format("PE {}: ", all->me());
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

std::string said_by(device::SymmFailure failure) {
  const device::SymmReport report = kernels_report();
  switch (failure) {
    case device::kSymmPeerGone:
      return "a kernel waited for a PE that has ended";
    case device::kSymmNotSymmetric:
      return fmt::format(
          "a kernel used address {:#x} for PE {}: what it wanted there is not all symmetric (of "
          "nvshmem_malloc())",
          report.address, report.pe);
    case device::kSymmNoSuchPe:
      return fmt::format("a kernel named PE {}, which is not there", report.pe);
    case device::kSymmNotReady:
      return "a kernel used a module that was loaded without nvshmemx_cumodule_init() or before "
             "nvshmem_init()";
    case device::kSymmNotReached:
      return fmt::format(
          "what goes to or from PE {} of another node stands at address {:#x}, which this PE's GPU "
          "does not reach: use memory of nvshmem_malloc(), cudaMalloc() or cudaMallocHost(), or "
          "register it (cudaHostRegister())",
          report.pe, report.address);
    case device::kSymmAskedToEnd:
      return "a kernel called nvshmem_global_exit()";
    case device::kSymmNothing:
      break;
  }
  return "a kernel gave up";
}

device::SymmFailure reported() {
  const OnDevice* const there = current_device.load(std::memory_order_acquire);
  return there == nullptr ? device::kSymmNothing : there->streams->failure();
}

}  // namespace

void fault(const char* call, const std::string& what) {
  end_job(limits::kFaultExitCode, call, what, true);
}

void fault_outside(const char* call) {
  fault(call, process().was_finalized ? "called after nvshmem_finalize()"
                                      : "called before nvshmem_init()");
}

void fault_pe(const char* call, int64_t pe) {
  fault(call, fmt::format("there is no PE {}: PEs are 0 to {}", pe, group(call).size() - 1));
}

void fault_at(const char* call, Status status, const void* address, uint64_t bytes, uint32_t pe) {
  if (status.code() != Code::invalid_argument) fault_status(call, status);
  if (pe >= group(call).size()) fault_pe(call, static_cast<int32_t>(pe));
  if (on_device(call).heap->at(address, bytes, pe) != nullptr) {
    fault(call, fmt::format("PE {}, address {}: {} bytes: the GPU refuses the other side's address",
                            pe, address, bytes));
  }
  fault(call, fmt::format(
                  "PE {}, address {}: {} bytes from there are not symmetric (of nvshmem_malloc())",
                  pe, address, bytes));
}

void fault_status(const char* call, Status status) {
  Process& own = process();
  const symm::Group& all = group(call);
  // A kernel that gives up ends all that the GPU does for this process: then that is why.
  const device::SymmFailure failure = reported();
  if (failure != device::kSymmNothing && failure != device::kSymmPeerGone)
    fault(call, said_by(failure));
  const bool is_of_others = own.member->first_end().has_value() || all.first_gone().has_value();
  if (failure == device::kSymmNothing && status.code() == Code::peer_gone && !is_of_others) {
    fault(call, fmt::format("the GPU does no more for this process (CUDA error {}; a kernel has "
                            "failed, or the device)",
                            status.detail()));
  }
  if (status.code() == Code::peer_gone || status.code() == Code::cancelled) {
    // All PEs find the same: the next one tells. Who ended the job on purpose has told.
    const auto end = own.member->first_end();
    const std::optional<uint32_t> gone = all.first_gone();
    const bool is_told =
        gone && end && end->how != job::How::aborted && (*gone + 1) % all.size() == all.me();
    const std::string what =
        gone ? fmt::format("PE {} has ended, which this waits for", *gone) : "the job was ended";
    end_job(own.exit_code_of_end(), call, what, is_told);
  }
  fault(call, fmt::format("failed: {}", status.name()));
}

void check_kernels(const char* call) {
  const device::SymmFailure failure = reported();
  if (failure == device::kSymmNothing) return;
  if (failure == device::kSymmPeerGone) fault_status(call, Code::peer_gone);
  fault(call, said_by(failure));
}

}  // namespace penstock::nvshmem
