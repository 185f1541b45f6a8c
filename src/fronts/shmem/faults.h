// What is wrong with a call. OpenSHMEM's calls give no errors: one line on standard error, and the
// job ends.
//
// Every place where this front ends a program is in faults.cc, but for shmem_global_exit().
#pragma once

#include <cstdint>
#include <string>

#include "penstock/base.h"

namespace penstock::shmem {

// "penstock: PE 3: shmem_int_put: ...", and the job ends with limits::kFaultExitCode.
[[noreturn]] void fault(const char* call, const std::string& what);

// The call came before shmem_init() or after shmem_finalize().
[[noreturn]] void fault_outside(const char* call);

// A PE that is not there, of `size`.
[[noreturn]] void fault_pe(const char* call, int64_t pe, uint32_t size);

// A symmetric address, and how much of what it names was asked for, at a PE.
struct Asked {
  const void* address;
  uint64_t bytes;
  uint32_t pe;
  uint64_t alignment = 1;
};

// An operation on memory ended with `status`. Returns where nothing was asked for, which may be at
// any address.
void check_asked(const char* call, Status status, const Asked& asked);

// An operation of several PEs ended with `status`: one of them has ended, or the job does.
[[noreturn]] void fault_status(const char* call, Status status);

}  // namespace penstock::shmem
