// primitives.h for host code that plays kernels: tests set what plays the GPU. Only primitives.h
// includes it.
#pragma once

#include "penstock_device/symm/primitives.h"

namespace penstock::device {

#if !defined(PENSTOCK_HOST_LANES)
#define PENSTOCK_HOST_LANES 4  // what 32 do wrong, 4 do too
#endif
constexpr uint32_t kSymmLanes = PENSTOCK_HOST_LANES;  // of a simulated warp

// What changes a word at once.
enum class Change { add, bit_and, bit_or, bit_xor, swap, compare_swap };

// A thread of a simulated GPU, as its memory and its company see it.
class HostLane {
 public:
  virtual ~HostLane() = default;
  virtual void load(const void* from, void* to, uint32_t bytes) = 0;
  virtual void store(void* to, const void* from, uint32_t bytes) = 0;
  virtual uint64_t load_word(const void* from, uint32_t bytes, bool acquire) = 0;
  virtual void store_word(void* to, uint64_t value, uint32_t bytes) = 0;
  virtual uint64_t change_word(void* at, uint32_t bytes, Change change, uint64_t value,
                               uint64_t expected) = 0;
  virtual void fence(bool total) = 0;
  virtual uint32_t rank(Scope scope) = 0;
  virtual uint32_t size(Scope scope) = 0;
  virtual bool all(Scope scope, bool vote) = 0;
  virtual void end_kernel() = 0;  // throws what ends the simulated thread
  virtual bool is_for_engines(const void* address) = 0;
};
inline thread_local HostLane* host_lane = nullptr;

template <class T>
T load_weak(const T* from) {
  T out;
  host_lane->load(from, &out, sizeof out);
  return out;
}
template <class T>
void store_weak(T* to, T value) {
  host_lane->store(to, &value, sizeof value);
}
inline void prefetch_to_l2(const void*) {}

template <class T>
T load_system(const T* from) {
  return static_cast<T>(host_lane->load_word(from, sizeof(T), false));
}
// A unit's words may be seen one by one.
inline SymmUnit load_system(const SymmUnit* from) {
  SymmUnit out;
  for (int i = 0; i < 4; ++i) out.word[i] = load_system(&from->word[i]);
  return out;
}
inline SymmPair load_system(const SymmPair* from) {
  SymmPair out;
  for (int i = 1; i >= 0; --i) out.word[i] = load_system(&from->word[i]);
  return out;
}
template <class T>
T load_acquire(const T* from) {
  return static_cast<T>(host_lane->load_word(from, sizeof(T), true));
}
template <class T>
void store_system(T* to, T value) {
  host_lane->store_word(to, value, sizeof(T));
}

inline void store_system(SymmPair* to, SymmPair value) {
  for (int i = 0; i < 2; ++i) store_system(&to->word[i], value.word[i]);
}

template <class T>
T fetch_add_system(T* at, T value) {
  return static_cast<T>(host_lane->change_word(at, sizeof(T), Change::add, value, 0));
}
template <class T>
void add_system(T* at, T value) {
  fetch_add_system(at, value);
}
template <class T>
T fetch_and_system(T* at, T value) {
  return static_cast<T>(host_lane->change_word(at, sizeof(T), Change::bit_and, value, 0));
}
template <class T>
void and_system(T* at, T value) {
  fetch_and_system(at, value);
}
template <class T>
T fetch_or_system(T* at, T value) {
  return static_cast<T>(host_lane->change_word(at, sizeof(T), Change::bit_or, value, 0));
}
template <class T>
void or_system(T* at, T value) {
  fetch_or_system(at, value);
}
template <class T>
T fetch_xor_system(T* at, T value) {
  return static_cast<T>(host_lane->change_word(at, sizeof(T), Change::bit_xor, value, 0));
}
template <class T>
void xor_system(T* at, T value) {
  fetch_xor_system(at, value);
}
template <class T>
T swap_system(T* at, T value) {
  return static_cast<T>(host_lane->change_word(at, sizeof(T), Change::swap, value, 0));
}
template <class T>
T compare_swap_system(T* at, T expected, T value) {
  return static_cast<T>(
      host_lane->change_word(at, sizeof(T), Change::compare_swap, value, expected));
}

inline uint64_t forgotten(uint64_t value) {
  return value;
}

inline void fence_system() {
  host_lane->fence(false);
}
inline void fence_system_total() {
  host_lane->fence(true);
}

template <Scope kScope>
struct Company {
  static uint32_t rank() { return host_lane->rank(kScope); }
  static uint32_t size() { return host_lane->size(kScope); }
  static void meet() { host_lane->all(kScope, true); }
  static bool all(bool vote) { return host_lane->all(kScope, vote); }
};

[[noreturn]] inline void end_kernel() {
  host_lane->end_kernel();
  __builtin_unreachable();
}

}  // namespace penstock::device
