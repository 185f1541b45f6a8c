// Changes of words that PEs of other nodes asked for: made by threads of this GPU, so that they are
// atomic with what other kernels do. A kernel may not start while others fill the GPU, and those
// may wait for just such a change: so whoever waits makes them, too.
#pragma once

#include "penstock_device/symm/address.h"
#include "penstock_device/symm/far_layout.h"

namespace penstock::device {

template <class T>
PENSTOCK_DEVICE T change_word(T* at, FarChange change, T value, T expected) {
  switch (change) {
    case FarChange::swap:
      return swap_system(at, value);
    case FarChange::compare_swap:
      return compare_swap_system(at, expected, value);
    case FarChange::add:
      return fetch_add_system(at, value);
    case FarChange::bit_and:
      return fetch_and_system(at, value);
    case FarChange::bit_or:
      return fetch_or_system(at, value);
    case FarChange::bit_xor:
      return fetch_xor_system(at, value);
    default:
      return 0;
  }
}

PENSTOCK_DEVICE uint64_t make_change(const FarPosted& posted) {
  const auto change = static_cast<FarChange>(load_system(&posted.change));
  const uint64_t address = load_system(&posted.address);
  const uint64_t value = load_system(&posted.value);
  const uint64_t expected = load_system(&posted.expected);
  if (load_system(&posted.bytes) == sizeof(uint32_t)) {
    return change_word(reinterpret_cast<uint32_t*>(address), change, static_cast<uint32_t>(value),
                       static_cast<uint32_t>(expected));
  }
  return change_word(reinterpret_cast<uint64_t*>(address), change, value, expected);
}

// Makes those that are posted, unless another thread is at it.
PENSTOCK_DEVICE void serve_changes(const SymmState& state) {
  const SymmFar& far = *state.far;
  FarControl& control = *far.control;
  FarChanges& changes = *far.changes;
  if (load_system(&changes.posted) == load_system(&control.changes_served)) return;
  if (compare_swap_system(&control.changes_lock, uint32_t{0}, uint32_t{1}) != 0) return;
  fence_system();  // with the one before the lock was let go
  PENSTOCK_NOT_UNROLLED
  while (true) {
    const uint64_t served = load_system(&control.changes_served);
    if (load_acquire(&changes.posted) == served) break;
    // What the PE put before is there for who sees the change: the proxy posts behind it.
    fence_system();
    store_system(&changes.before[served % kFarPosted],
                 make_change(changes.entry[served % kFarPosted]));
    // The proxy that sees the count sees what was there before.
    fence_system();
    store_system(&changes.served, served + 1);
    store_system(&control.changes_served, served + 1);
  }
  fence_system();
  store_system(&control.changes_lock, uint32_t{0});
}

}  // namespace penstock::device
