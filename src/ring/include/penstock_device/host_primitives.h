// primitives.h for host code that plays a kernel. Only primitives.h includes it.
#pragma once

#include "penstock_device/layout.h"

namespace penstock::device {

// What a thread needs of the world outside: set by the test that runs it.
struct HostWorld {
  uint64_t (*nanoseconds)() = nullptr;
  void (*nap)(uint32_t nanoseconds) = nullptr;
};
inline HostWorld host_world;

// Threads that are the 32 lanes of a warp. Each gives its share and gets what all gave.
class HostWarp {
 public:
  virtual ~HostWarp() = default;
  virtual void exchange(uint32_t lane, uint64_t share, uint64_t (&shares)[32]) = 0;
};
inline thread_local HostWarp* host_warp = nullptr;  // null: a thread alone
inline thread_local uint32_t host_warp_lane = 0;

// Halves of a pair may be seen one by one, as on a GPU.
inline Pair load_shared(const Pair* from) {
  return {__atomic_load_n(&from->first, __ATOMIC_ACQUIRE),
          __atomic_load_n(&from->second, __ATOMIC_ACQUIRE)};
}
inline Pair acquire_shared(const Pair* from) {
  return load_shared(from);
}
inline uint32_t load_shared(const uint32_t* from) {
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
inline void store_shared(Pair* to, const Pair& value) {
  __atomic_store_n(&to->first, value.first, __ATOMIC_RELEASE);
  __atomic_store_n(&to->second, value.second, __ATOMIC_RELEASE);
}
inline void store_shared(uint32_t* to, uint32_t value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
inline void store_shared(uint64_t* to, uint64_t value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
inline void fence_shared() {}  // the loads have acquired
inline uint32_t host_fence = 0;
inline void fence_store_load() {
  // Not a fence proper, which thread sanitizers do not know.
  __atomic_fetch_add(&host_fence, 1, __ATOMIC_SEQ_CST);
}

inline Pair load_own(const Pair* from) {
  return load_shared(from);
}
inline uint32_t load_own(const uint32_t* from) {
  return load_shared(from);
}
inline void store_own(uint32_t* to, uint32_t value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
inline void store_own(Pair* to, const Pair& value) {
  store_shared(to, value);
}
inline uint32_t load_constant(const uint32_t* from) {
  return *from;
}
inline uint64_t exchange_if(uint64_t* at, uint64_t expected, uint64_t wanted) {
  __atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}
inline void raise(uint64_t* at, uint64_t value) {
  uint64_t seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (seen < value &&
         !__atomic_compare_exchange_n(at, &seen, value, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}
inline uint32_t count_up(uint32_t* at) {
  return __atomic_fetch_add(at, 1, __ATOMIC_ACQ_REL);
}

struct alignas(16) Unit {
  uint32_t word[4];
};
inline Unit load_unit(const char* from) {
  Unit unit;
  for (uint32_t i = 0; i < 4; ++i) {
    unit.word[i] = __atomic_load_n(reinterpret_cast<const uint32_t*>(from) + i, __ATOMIC_RELAXED);
  }
  return unit;
}
inline void store_unit(char* to, const Unit& unit) {
  __builtin_memcpy(to, &unit, sizeof unit);
}

inline uint64_t nanoseconds() {
  return host_world.nanoseconds();
}
inline uint64_t ticks() {
  return host_world.nanoseconds();
}
inline void nap(uint32_t nanoseconds) {
  host_world.nap(nanoseconds);
}
inline uint32_t warp_lane() {
  return host_warp != nullptr ? host_warp_lane : 0;
}
inline uint32_t warp_lanes_with(uint64_t) {
  return uint32_t{1} << warp_lane();
}
inline uint32_t count_bits(uint32_t word) {
  return static_cast<uint32_t>(__builtin_popcount(word));
}
inline uint32_t lowest_bit(uint32_t word) {
  return static_cast<uint32_t>(__builtin_ctz(word));
}

// Of one lane, or of a whole warp.
inline uint32_t ballot(uint32_t mask, bool vote) {
  if (count_bits(mask) == 1) return vote ? mask : 0;
  uint64_t votes[32];
  host_warp->exchange(host_warp_lane, vote ? 1 : 0, votes);
  uint32_t out = 0;
  for (uint32_t i = 0; i < 32; ++i) out |= static_cast<uint32_t>(votes[i]) << i;
  return out & mask;
}
inline uint64_t from_warp_lane(uint32_t mask, uint64_t value, uint32_t from) {
  if (count_bits(mask) == 1) return value;
  uint64_t values[32];
  host_warp->exchange(host_warp_lane, value, values);
  return values[from % 32];
}
inline uint32_t from_warp_lane(uint32_t mask, uint32_t value, uint32_t from) {
  return static_cast<uint32_t>(from_warp_lane(mask, uint64_t{value}, from));
}
inline uint32_t sum_up(uint32_t mask, uint32_t value) {
  if (count_bits(mask) == 1) return value;
  uint64_t values[32];
  host_warp->exchange(host_warp_lane, value, values);
  uint64_t out = 0;
  for (uint64_t one : values) out ^= one;
  return static_cast<uint32_t>(out);
}
inline void together(uint32_t mask) {
  (void)ballot(mask, true);
}

}  // namespace penstock::device
