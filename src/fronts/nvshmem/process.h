// What this process is in its job: the group of all PEs, and their GPUs' memory.
#pragma once

#include "faults.h"
#include "kernel_watch.h"
#include "team_meeting.h"
#include "team_streams.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/job.h"
#include "penstock/symm.h"

namespace penstock::nvshmem {

// A PE's GPU. Programs choose it before nvshmem_init() or after it: it comes with the first call
// that all PEs make once it is chosen, or that needs it.
struct OnDevice {
  std::unique_ptr<gpu::SymmetricDevice> device;
  std::unique_ptr<symm::DeviceHeap> heap;
  std::unique_ptr<symm::DeviceStreams> streams;
  std::unique_ptr<symm::DeviceWords> words;
  std::unique_ptr<TeamStreams> team_streams;
  // Calls that left something to do on the device's own stream, and how many of them a quiet has
  // found done: one after nothing costs nothing.
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> done{0};
  std::unique_ptr<KernelWatch> watch;  // of the heap's words
};

struct Process {
  std::mutex mutex;                     // of what follows, and of the calls that make and end it
  std::unique_ptr<job::Member> member;  // a launcher's stays between a finalize and the next init
  bool has_own_room = false;  // no launcher has the job's room: this process or another PE has it
  std::vector<std::unique_ptr<job::Gate>> gates;  // of the unique ids that this process has made
  std::unique_ptr<symm::Group> group;
  std::unique_ptr<TeamMeetings> team_meetings;
  std::unique_ptr<OnDevice> on_device;
  uint64_t* with_device = nullptr;  // of PE 0: how many PEs have said that they have a GPU current
  uint64_t with_device_seen = 0;    // of those, when they were asked last
  int inits = 0;
  bool was_finalized = false;  // and not begun again
  int pid = 0;                 // that joined: a child that it forks is no PE

  // What the job ends with because another PE has ended.
  int exit_code_of_end() const;
};

// The only one; lives as long as the process, so that exit handlers find it.
Process& process();

// Null before the first init and after the last finalize; and before a call that needs the GPU.
extern std::atomic<symm::Group*> current_group;
extern std::atomic<OnDevice*> current_device;

inline symm::Group& group(const char* call) {
  symm::Group* const current = current_group.load(std::memory_order_acquire);
  if (current == nullptr) [[unlikely]]
    fault_outside(call);
  return *current;
}

// The GPU that is current in the calling thread becomes this PE's, if it has none yet: then all PEs
// come here together.
OnDevice& on_device(const char* call);
// The same where all PEs have one current, in a call that all make and that needs none: kernels may
// be launched behind it.
void take_current_device(const char* call);

// Between an init and the finalize that ends it; and behind that, until it begins anew.
bool has_begun();
bool has_been_finalized();
// For `call`: with the job that a launcher, or the caller, has made; null: as the environment says.
// After the last finalize it begins anew.
void begin(const char* call, std::unique_ptr<job::Member> member);
void finish(const char* call);

}  // namespace penstock::nvshmem
