// What is wrong with a call that has no way to say so: one line on standard error, and the job
// ends. Every place where this front ends a program is in faults.cc, but for nvshmem_global_exit().
#pragma once

#include <string>

#include "penstock/base.h"

namespace penstock::nvshmem {

// "penstock: PE 3: nvshmem_malloc: ...", and the job ends with limits::kFaultExitCode.
[[noreturn]] void fault(const char* call, const std::string& what);
// The call came before nvshmem_init() or after nvshmem_finalize().
[[noreturn]] void fault_outside(const char* call);
[[noreturn]] void fault_pe(const char* call, int64_t pe);
// An operation on `bytes` at an address of a PE ended with `status`.
[[noreturn]] void fault_at(const char* call, Status status, const void* address, uint64_t bytes,
                           uint32_t pe);
// An operation of several PEs ended with `status`: one of them has ended, or the job does.
[[noreturn]] void fault_status(const char* call, Status status);
// What a kernel has reported, if it has: the job ends then.
void check_kernels(const char* call);

}  // namespace penstock::nvshmem
