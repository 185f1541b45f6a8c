// What the programs of PEs in this library's tests have in common: each scenario runs in real
// processes of a job.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "penstock/symm.h"
#include "penstock/testing_gpus.h"

namespace penstock::symm::test {

// Ends this PE with a message: its job, and so the test, fails.
[[noreturn]] inline void fail(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
  std::_Exit(1);
}

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) ::penstock::symm::test::fail(__FILE__, __LINE__, #condition); \
  } while (false)

struct Pe {
  job::Member& member;
  Group& group;
  penstock::test::SimulatedDevices* gpus = nullptr;  // null: real ones, if any

  uint32_t me() const { return group.me(); }
  uint32_t size() const { return group.size(); }
  uint32_t right() const { return (me() + 1) % size(); }
  uint32_t left() const { return (me() + size() - 1) % size(); }

  // The same place on each PE, when all call it in the same order.
  template <class T>
  T* allocate(uint64_t count) const {
    const auto offset = group.heap().allocate(count * sizeof(T), alignof(T));
    CHECK(offset);
    return reinterpret_cast<T*>(group.heap_address(*offset));
  }
};

// A barrier after which the last PE may end: it goes on when all others are through. Over several
// nodes one that ends may take with it what others were to be told.
inline void meet_before_the_last_one_ends(const Pe& pe) {
  auto* const through = pe.allocate<uint64_t>(pe.size());
  const uint32_t last = pe.size() - 1;
  CHECK(pe.group.barrier(pe.group.world()).ok());
  if (pe.me() != last) {
    CHECK(pe.group.tell(through + pe.me(), 1, last).ok());
    return;
  }
  for (uint32_t other = 0; other < last; ++other) {
    const auto has_told = [&] { return __atomic_load_n(through + other, __ATOMIC_ACQUIRE) == 1; };
    CHECK(pe.group.wait(has_told).ok());
  }
}

using Scenario = void (*)(const Pe& pe);

// Scenarios by name; each file adds its own.
struct Named {
  const char* name;
  Scenario run;
};
extern const Named kMemoryScenarios[];
extern const Named kCollectiveScenarios[];
extern const Named kSmallScenarios[];
extern const Named kTeamScenarios[];
extern const Named kEndScenarios[];
extern const Named kDeviceScenarios[];
extern const Named kDeviceFaultScenarios[];
extern const Named kDeviceFarScenarios[];
extern const Named kDeviceApartScenarios[];
extern const Named kFarOperationScenarios[];
extern const Named kFarScenarios[];
extern const Named kRandomScenarios[];
extern const Named kFarKernelScenarios[];

}  // namespace penstock::symm::test
