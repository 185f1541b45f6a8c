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

PENSTOCK_DEVICE bool is_copy(const FarPosted& posted) {
  return load_system(&posted.change) >= static_cast<uint8_t>(FarChange::copy_in);
}

template <class T, Scope kScope>
PENSTOCK_DEVICE void copy_elements_as(char* to, const char* from, uint64_t to_step,
                                      uint64_t from_step, uint64_t count) {
  PENSTOCK_NOT_UNROLLED
  for (uint64_t i = Company<kScope>::rank(); i < count; i += Company<kScope>::size()) {
    store_system(reinterpret_cast<T*>(to + i * to_step),
                 load_system(reinterpret_cast<const T*>(from + i * from_step)));
  }
}

// What stands together is moved by the widest word for which both sides are aligned.
template <Scope kScope>
PENSTOCK_DEVICE void make_copy(const FarPosted& posted) {
  const uint64_t here = load_system(&posted.address);
  const uint64_t host = load_system(&posted.value);
  const uint64_t bytes = load_system(&posted.bytes);
  uint64_t width = uint64_t{1} << load_system(&posted.width_log2);
  uint64_t step = load_system(&posted.expected);
  if (step == width) width = step = bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : 1;
  const bool is_in = load_system(&posted.change) == static_cast<uint8_t>(FarChange::copy_in);
  char* const to = reinterpret_cast<char*>(is_in ? here : host);
  const char* const from = reinterpret_cast<const char*>(is_in ? host : here);
  const uint64_t unaligned = here | host | step | width;
  PENSTOCK_NOT_UNROLLED
  for (uint64_t part = 0; part < width;) {
    const uint64_t to_step = is_in ? step : width;
    const uint64_t from_step = is_in ? width : step;
    const uint64_t count = bytes / width;
    if (unaligned % 8 == 0) {
      copy_elements_as<uint64_t, kScope>(to + part, from + part, to_step, from_step, count);
      part += 8;
    } else if (unaligned % 4 == 0) {
      copy_elements_as<uint32_t, kScope>(to + part, from + part, to_step, from_step, count);
      part += 4;
    } else if (unaligned % 2 == 0) {
      copy_elements_as<uint16_t, kScope>(to + part, from + part, to_step, from_step, count);
      part += 2;
    } else {
      copy_elements_as<uint8_t, kScope>(to + part, from + part, to_step, from_step, count);
      part += 1;
    }
  }
}

// Makes those that are posted, unless others are at it: one company at a time. A thread alone
// leaves copies to the kernel that is launched for them: registers of theirs would come on top of
// those of every kernel that waits.
template <Scope kScope>
PENSTOCK_DEVICE void serve_changes(const SymmState& state) {
  using Those = Company<kScope>;
  const SymmFar& far = *state.far;
  FarControl& control = *far.control;
  FarChanges& changes = *far.changes;
  const bool leads = Those::rank() == 0;
  if (!Those::all(!leads || load_system(&changes.posted) != load_system(&control.changes_served)))
    return;
  // Without the lock, which the kernel would find taken by one or another of many that wait.
  if (kScope == Scope::thread &&
      is_copy(changes.entry[load_system(&control.changes_served) % kFarPosted]))
    return;
  if (!Those::all(!leads ||
                  compare_swap_system(&control.changes_lock, uint32_t{0}, uint32_t{1}) == 0))
    return;
  fence_system();  // with the one before the lock was let go
  PENSTOCK_NOT_UNROLLED
  while (true) {
    const uint64_t served = load_system(&control.changes_served);
    if (!Those::all(!leads || load_acquire(&changes.posted) != served)) break;
    // What the PE put before is there for who sees the change: the proxy posts behind it.
    fence_system();
    const FarPosted& posted = changes.entry[served % kFarPosted];
    if (is_copy(posted)) {
      if (kScope == Scope::thread) break;
      make_copy<kScope>(posted);
    } else if (leads) {
      store_system(&changes.before[served % kFarPosted], make_change(posted));
    }
    // The proxy that sees the count sees what was there before.
    fence_system();
    Those::meet();
    if (leads) {
      fence_system();
      store_system(&changes.served, served + 1);
      store_system(&control.changes_served, served + 1);
    }
    Those::meet();
  }
  fence_system();
  if (leads) store_system(&control.changes_lock, uint32_t{0});
}

}  // namespace penstock::device
