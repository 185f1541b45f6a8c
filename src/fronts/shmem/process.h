// What this process is in its job: the group of all PEs, from shmem_init() to shmem_finalize().
#pragma once

#include "faults.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "penstock/job.h"
#include "penstock/symm.h"

namespace penstock::shmem {

// Null before the first shmem_init() and after the last shmem_finalize(). Read by each call, so it
// stands alone.
extern std::atomic<symm::Group*> current_group;

inline symm::Group& group(const char* call) {
  symm::Group* const current = current_group.load(std::memory_order_acquire);
  if (current == nullptr) [[unlikely]]
    fault_outside(call);
  return *current;
}

struct Process {
  std::mutex mutex;  // of what follows, and of the calls that make and end it
  std::unique_ptr<job::Member> member;
  std::unique_ptr<symm::Group> group;
  int inits = 0;
  bool was_finalized = false;
  int thread_level = 0;
  int pid = 0;  // that joined: a child that it forks is no PE
  std::mutex heap_mutex;

  // What the job ends with because another PE has ended.
  int exit_code_of_end() const;
};

// The only one; lives as long as the process, so that exit handlers find it.
Process& process();

// shmem_init() and shmem_finalize(), for `call`.
void begin(const char* call, int thread_level);
void finish(const char* call);

}  // namespace penstock::shmem
