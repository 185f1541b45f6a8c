// The few things that a kernel's code does to memory, to time and to its warp, for CUDA and for
// host code that plays a kernel in tests. There a kernel's thread is a thread, alone or with others
// in a HostWarp.
#pragma once

#include "penstock_device/layout.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define PENSTOCK_DEVICE __device__ inline
#else
#define PENSTOCK_DEVICE inline
#endif

namespace penstock::device {

inline constexpr uint32_t kWarpLanes = 32;
inline constexpr uint32_t kWholeWarp = 0xffffffff;

#if defined(__CUDACC__)

// ---- memory that the host shares: what one side stores the other sees some time later ----

PENSTOCK_DEVICE Pair load_shared(const Pair* from) {
  Pair out;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(out.first), "=l"(out.second)
               : "l"(from)
               : "memory");
  return out;
}
// What the host did before it stored what was read is seen after this.
PENSTOCK_DEVICE Pair acquire_shared(const Pair* from) {
  Pair out;
  asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(out.first), "=l"(out.second)
               : "l"(from)
               : "memory");
  return out;
}
PENSTOCK_DEVICE uint32_t load_shared(const uint32_t* from) {
  uint32_t out;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(out) : "l"(from) : "memory");
  return out;
}
PENSTOCK_DEVICE void store_shared(Pair* to, const Pair& value) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
               :
               : "l"(to), "l"(value.first), "l"(value.second)
               : "memory");
}
PENSTOCK_DEVICE void store_shared(uint32_t* to, uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
}
PENSTOCK_DEVICE void store_shared(uint64_t* to, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
}
// What others, the host and copy engines included, did before what was read is seen after this.
PENSTOCK_DEVICE void fence_shared() {
  asm volatile("fence.acq_rel.sys;" : : : "memory");
}
// Between a store and a load: of two sides that store, fence and look, one sees the other.
PENSTOCK_DEVICE void fence_store_load() {
  asm volatile("fence.sc.sys;" : : : "memory");
}

// ---- memory of the GPU that its kernels share ----

PENSTOCK_DEVICE Pair load_own(const Pair* from) {
  Pair out;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(out.first), "=l"(out.second)
               : "l"(from)
               : "memory");
  return out;
}
PENSTOCK_DEVICE uint32_t load_own(const uint32_t* from) {
  uint32_t out;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(out) : "l"(from) : "memory");
  return out;
}
// What was loaded before has been used by then, so no later access can overtake it: no fence.
PENSTOCK_DEVICE void store_own(uint32_t* to, uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
}
PENSTOCK_DEVICE void store_own(Pair* to, const Pair& value) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};"
               :
               : "l"(to), "l"(value.first), "l"(value.second)
               : "memory");
}
// Of memory that is not written while kernels run.
PENSTOCK_DEVICE uint32_t load_constant(const uint32_t* from) {
  return __ldg(from);
}
PENSTOCK_DEVICE uint64_t exchange_if(uint64_t* at, uint64_t expected, uint64_t wanted) {
  return atomicCAS(reinterpret_cast<unsigned long long*>(at), expected, wanted);
}
PENSTOCK_DEVICE void raise(uint64_t* at, uint64_t value) {
  atomicMax(reinterpret_cast<unsigned long long*>(at), value);
}
PENSTOCK_DEVICE uint32_t count_up(uint32_t* at) {
  return atomicAdd(at, 1u);
}

// ---- file bytes, which the host may be replacing at the same time ----

struct alignas(16) Unit {
  uint32_t word[4];
};
// Past the caches of the GPU: an address may hold other bytes than when it was read last.
PENSTOCK_DEVICE Unit load_unit(const char* from) {
  const uint4 got = __ldcv(reinterpret_cast<const uint4*>(from));
  return {{got.x, got.y, got.z, got.w}};
}
PENSTOCK_DEVICE void store_unit(char* to, const Unit& unit) {
  *reinterpret_cast<uint4*>(to) =
      make_uint4(unit.word[0], unit.word[1], unit.word[2], unit.word[3]);
}

// ---- time and company ----

PENSTOCK_DEVICE uint64_t nanoseconds() {
  uint64_t out;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(out));
  return out;
}
// Cycles of this multiprocessor, half a nanosecond each when it works: for what need not be exact.
PENSTOCK_DEVICE uint64_t ticks() {
  return static_cast<uint64_t>(clock64());
}
PENSTOCK_DEVICE void nap(uint32_t nanoseconds) {
  __nanosleep(nanoseconds);
}
PENSTOCK_DEVICE uint32_t warp_lane() {
  uint32_t out;
  asm("mov.u32 %0, %%laneid;" : "=r"(out));
  return out;
}
// The lanes that came here together and hold the same `key`.
PENSTOCK_DEVICE uint32_t warp_lanes_with(uint64_t key) {
  return __match_any_sync(__activemask(), key);
}
PENSTOCK_DEVICE uint32_t ballot(uint32_t mask, bool vote) {
  return __ballot_sync(mask, vote);
}
PENSTOCK_DEVICE uint32_t from_warp_lane(uint32_t mask, uint32_t value, uint32_t from) {
  return __shfl_sync(mask, value, static_cast<int>(from));
}
PENSTOCK_DEVICE uint64_t from_warp_lane(uint32_t mask, uint64_t value, uint32_t from) {
  return __shfl_sync(mask, static_cast<unsigned long long>(value), static_cast<int>(from));
}
PENSTOCK_DEVICE uint32_t sum_up(uint32_t mask, uint32_t value) {  // without carries
  return __reduce_xor_sync(mask, value);
}
PENSTOCK_DEVICE void together(uint32_t mask) {
  __syncwarp(mask);
}
PENSTOCK_DEVICE uint32_t count_bits(uint32_t word) {
  return static_cast<uint32_t>(__popc(word));
}
PENSTOCK_DEVICE uint32_t lowest_bit(uint32_t word) {
  return static_cast<uint32_t>(__ffs(static_cast<int>(word))) - 1;
}

#endif

}  // namespace penstock::device

#if !defined(__CUDACC__)
#include "penstock_device/host_primitives.h"
#endif
