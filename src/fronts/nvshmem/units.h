// The program's translation units that have kernels: each keeps what they know of their PE in
// constant memory, and says at the start of the program where.
#pragma once

#include "penstock/symm.h"

// Linked into a list by a static constructor of each unit (nvshmem.h has it), before or after this
// library's own; what it points to lives as long as its module. C layout: units are compiled by
// other compilers.
struct penstock_symm_unit {
  uint32_t version;  // of penstock_device/symm/state.h
  uint32_t bytes;    // of SymmState there
  void* (*address)(
      void);  // asks the program's runtime; null when there is no device code for this GPU
  struct penstock_symm_unit* next;
};

extern "C" {
__attribute__((visibility("default"))) void penstock_symm_add_unit(struct penstock_symm_unit* unit);
// Before kernels are launched together: the GPU is this PE's, and all units know it.
__attribute__((visibility("default"))) int penstock_nvshmem_ready();
}

namespace penstock::nvshmem {

struct OnDevice;

// Writes to all units that are known, of modules, too; those that are added later are told then.
Status tell_units(const symm::DeviceHeap& heap);
// The same together with all PEs, as kernels know how far symmetric memory reaches.
void tell_reach(const char* call, const OnDevice& there);
// The state of code that the program has loaded by the driver, which is in no list. not_found: it
// has none.
Outcome<std::byte*> state_in(const gpu::LoadedCode& code, const OnDevice& there);
// From here on it is told as units are, or no more and of no PE.
Status tell_loaded(const OnDevice& there, std::byte* state);
Status untell_loaded(const OnDevice& there, std::byte* state);
// At the last finalize: the program may unload its code before it begins again, and tells of what
// it has then.
void forget_loaded();

}  // namespace penstock::nvshmem
