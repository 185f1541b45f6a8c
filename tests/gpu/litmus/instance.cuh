// What the kernels of all litmus tests share: where an instance's words and slots are, what an
// iteration puts, and how a kernel looks, pauses and tells.
#pragma once

#include "litmus.h"
#include "penstock_device_symm.h"

#include <cuda_runtime.h>

namespace penstock::litmus {
namespace {

using namespace penstock::device;

constexpr uint64_t kSlots = 4;  // at most; see window()
constexpr uint64_t kSlotBytes = 16 * 1024;
constexpr uint64_t kSourceAt = 8 * 1024 + (kSlots + 1) * kSlotBytes;
constexpr uint64_t kPauseMax = 512;

static_assert(kSourceAt + kSlotBytes <= kInstanceBytes);

// How far a writer runs ahead of its reader. With 1, what the reader looked at before is old for
// sure, and may still stand in its first-level cache; with more, many stores are under way.
__device__ uint64_t window() {
  return blockIdx.x % 2 == 0 ? 1 : kSlots;
}

enum WordAt { kFlag, kAck, kSecondFlag, kX, kY, kResult, kLock, kCounter, kHere };

struct Place {
  char* base;

  __device__ uint64_t* word(int which) const {
    return reinterpret_cast<uint64_t*>(base + which * 256);
  }
  __device__ uint64_t* slot(uint64_t iteration, uint64_t offset, uint64_t slots = window()) const {
    return reinterpret_cast<uint64_t*>(base + 8 * 1024 + iteration % slots * kSlotBytes) + offset;
  }
  __device__ uint64_t* source() const { return reinterpret_cast<uint64_t*>(base + kSourceAt); }
};

__device__ Place place_of(const Work& work) {
  return {work.memory + blockIdx.x * kInstanceBytes};
}

__device__ uint64_t mixed(uint64_t value) {
  value *= 0x9e3779b97f4a7c15u;
  value ^= value >> 29;
  value *= 0xbf58476d1ce4e5b9u;
  return value ^ value >> 32;
}

// What iteration `i` puts, both sides know. Both halves of a word tell the same.
struct Shape {
  uint64_t offset;  // in words
  uint32_t words;
};
__device__ Shape shape_of(const Work& work, uint64_t i) {
  const uint64_t random = mixed(i * kInstances + blockIdx.x);
  return {random % 64, 1 + static_cast<uint32_t>(random >> 32) % work.words_max};
}
__device__ uint64_t value_of(uint64_t i, uint64_t word) {
  const uint64_t half = (i * 1021 + word) & 0xffffffff;
  return half << 32 | half;
}

// So that sides meet at ever other distances.
__device__ void pause(uint64_t i, uint32_t role) {
  const uint64_t random = mixed(i * 8 + role + (uint64_t{blockIdx.x} << 40));
  if ((random & 3) != 0) return;
  const long long until = clock64() + static_cast<long long>(random >> 8 & (kPauseMax - 1));
  while (clock64() < until) {
  }
}

// Plain loads, which the first-level cache may answer.
__device__ uint64_t look(const uint64_t* at) {
  uint64_t out;
  asm volatile("ld.weak.global.ca.u64 %0, [%1];" : "=l"(out) : "l"(at));
  return out;
}

__device__ void tell(const Work& work, uint64_t i, uint64_t seen, uint64_t wanted) {
  if (atomicAdd_system(reinterpret_cast<unsigned long long*>(&work.report->wrong), 1ull) != 0) {
    return;
  }
  work.report->iteration = i;
  work.report->seen = seen;
  work.report->wanted = wanted;
}
__device__ void count_early(const Work& work, uint64_t count) {
  if (count != 0) {
    atomicAdd_system(reinterpret_cast<unsigned long long*>(&work.report->early),
                     static_cast<unsigned long long>(count));
  }
}
__device__ void end(const Work& work) {
  atomicAdd_system(reinterpret_cast<unsigned long long*>(&work.report->ended), 1ull);
}

template <Scope kScope>
__device__ bool leads() {
  return device::Company<kScope>::rank() == 0;
}

}  // namespace
}  // namespace penstock::litmus
