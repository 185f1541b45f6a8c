// What programs for NVSHMEM on simulated GPUs have in common: each is one PE of a job of
// simulated_test.cc.
#pragma once

#include "nvshmem_host.h"
#include "process.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "penstock/testing_gpus.h"

namespace penstock::nvshmem::test {

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                               \
    }                                                                              \
  } while (false)

// Two. They live as long as the process, as threads of the library do that use its devices.
penstock::test::SimulatedDevices& gpus();

struct Pe {
  int me = 0;
  int pes = 0;
  int right() const { return (me + 1) % pes; }
  int left() const { return (me + pes - 1) % pes; }
};

template <class T>
T* allocate(size_t count) {
  auto* const memory = static_cast<T*>(nvshmem_malloc(count * sizeof(T)));
  CHECK(memory != nullptr);
  return memory;
}

// Programs by name; the last one has none.
struct Named {
  const char* name;
  void (*run)();
};
extern const Named kFarPrograms[];
extern const Named kHeapPrograms[];
extern const Named kSetupPrograms[];

}  // namespace penstock::nvshmem::test
