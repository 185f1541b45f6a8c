// Where another PE's instance of a symmetric address stands, and what happens when there is none.
#pragma once

#include "penstock_device/symm/primitives.h"

namespace penstock::device {

// Ends the kernel, and with it every later CUDA call of the process, after the host has been told
// why. For calls that have no way to say that they failed: a program that went on would take for
// done what is not, and a kernel that just ended would let the next one in the stream do so.
[[noreturn]] PENSTOCK_DEVICE_CALL void give_up(const SymmState& state, SymmFailure why, int pe,
                                               const void* address) {
  if (state.failure != nullptr) {
    auto* const report = reinterpret_cast<SymmReport*>(state.failure);
    store_system(reinterpret_cast<uint32_t*>(&report->pe), static_cast<uint32_t>(pe));
    store_system(&report->address, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(address)));
    // The host that sees `why` sees the rest.
    fence_system();
    store_system(&report->why, static_cast<uint32_t>(why));
    // The trap must not overtake it.
    fence_system_total();
  }
  end_kernel();
}

// These stand in front of every access, and are told without a branch between them.

// Whether this PE is reached by loads and stores.
PENSTOCK_DEVICE bool is_near(const SymmState& state, int pe) {
  static_assert(kSymmNearMax <= 64);
  const auto index = static_cast<uint32_t>(pe);
  return static_cast<bool>((index < 64) & ((state.near_pes[0] >> (index % 64) & 1) != 0));
}

PENSTOCK_DEVICE uint64_t offset_of(const SymmState& state, const void* symmetric) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(symmetric) -
                               reinterpret_cast<uintptr_t>(state.heap));
}

// Whether all of it is in the heap. False before the state is filled: there is no heap then.
PENSTOCK_DEVICE bool is_symmetric(const SymmState& state, const void* address, uint64_t bytes) {
  const bool fits = bytes <= state.heap_bytes;
  return static_cast<bool>(fits & (offset_of(state, address) <= state.heap_bytes - bytes));
}

[[noreturn]] PENSTOCK_DEVICE_CALL void refuse(const SymmState& state, const void* address,
                                              uint64_t bytes, int pe) {
  SymmFailure why = kSymmNoSuchPe;
  if (state.version == 0) {
    why = kSymmNotReady;
  } else if (!is_symmetric(state, address, bytes)) {
    why = kSymmNotSymmetric;
  }
  give_up(state, why, pe, address);
}

// Whether loads and stores reach all of it, so that instance_of() gives its address. No is rare,
// and said before a call: what to do there, which may be to refuse, is no part of the caller.
PENSTOCK_DEVICE bool is_reached(const SymmState& state, const void* symmetric, uint64_t bytes,
                                int pe) {
  return static_cast<bool>(is_symmetric(state, symmetric, bytes) & is_near(state, pe));
}
template <class T>
PENSTOCK_DEVICE T* instance_of(const SymmState& state, T* symmetric, int pe) {
  return reinterpret_cast<T*>(state.peers + static_cast<uint64_t>(pe) * state.stride +
                              offset_of(state, symmetric));
}

// The address of that PE's instance; `bytes` from it on will be used. Four comparisons, which cost
// nothing beside a store to another GPU, tell a mistake from somebody else's memory.
template <class T>
PENSTOCK_DEVICE T* at(const SymmState& state, T* symmetric, uint64_t bytes, int pe) {
  if (!is_symmetric(state, symmetric, bytes) || !is_near(state, pe)) {
    refuse(state, symmetric, bytes, pe);
  }
  return instance_of(state, symmetric, pe);
}

// The same for who asks whether there is one: null when there is not.
PENSTOCK_DEVICE void* try_at(const SymmState& state, const void* symmetric, int pe) {
  if (!is_symmetric(state, symmetric, 1) || !is_near(state, pe)) return nullptr;
  return state.peers + static_cast<uint64_t>(pe) * state.stride + offset_of(state, symmetric);
}

}  // namespace penstock::device
