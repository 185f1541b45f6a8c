// Puts and gets, and single words. All complete before they return where the source of a put, or
// the destination of a get, is concerned; what a put has written is seen by others after fence() or
// quiet(). Of PEs that are not near, the first thread of a company asks for all (far.h).
#pragma once

#include "penstock_device/symm/copy.h"
#include "penstock_device/symm/far.h"

namespace penstock::device {

// Those who do it together meet before it, so that each may have written a part of the source, and
// after it, so that each may write the source again, or fence and signal for all. Programs rely on
// both, also for what need not be complete before quiet(): NVSHMEM does so.
template <Scope kScope>
PENSTOCK_DEVICE void put(const SymmState& state, void* dest, const void* source, uint64_t bytes,
                         int pe) {
  Company<kScope>::meet();
  if (has_share<kScope>(dest, source, bytes)) {
    if (is_reached(state, dest, bytes, pe)) {
      copy<Source::near, kScope>(instance_of(state, dest, pe), source, bytes);
    } else if (Company<kScope>::rank() == 0) {
      put_far(state, dest, source, bytes, pe);
    }
  }
  Company<kScope>::meet();
}

// All of it is there after it, for all of them.
template <Scope kScope>
PENSTOCK_DEVICE void get(const SymmState& state, void* dest, const void* source, uint64_t bytes,
                         int pe) {
  Company<kScope>::meet();
  if (has_share<kScope>(dest, source, bytes)) {
    if (is_reached(state, source, bytes, pe)) {
      copy<Source::far, kScope>(dest, instance_of(state, source, pe), bytes);
    } else if (Company<kScope>::rank() == 0) {
      get_far(state, dest, source, bytes, pe);
    }
  }
  Company<kScope>::meet();
}

// How many bytes elements with this stride, which is positive, reach over; 0 for none.
PENSTOCK_DEVICE uint64_t reach(int64_t stride, uint64_t count, uint64_t element_bytes) {
  if (count == 0) return 0;
  return (static_cast<uint64_t>(stride) * (count - 1) + 1) * element_bytes;
}

template <class T>
PENSTOCK_DEVICE FarRow far_row(uint64_t count, int64_t there, int64_t here) {
  return {count, sizeof(T), static_cast<uint64_t>(there), static_cast<uint64_t>(here)};
}

template <Scope kScope, class T>
PENSTOCK_DEVICE void iput(const SymmState& state, T* dest, const T* source, Strides strides,
                          uint64_t count, int pe) {
  Company<kScope>::meet();
  if (count != 0) {
    if (is_reached(state, dest, reach(strides.to, count, sizeof(T)), pe)) {
      copy_strided<Source::near, kScope>(instance_of(state, dest, pe), source, strides, count);
    } else if (Company<kScope>::rank() == 0) {
      put_row_far(state, dest, source, far_row<T>(count, strides.to, strides.from), pe);
    }
  }
  Company<kScope>::meet();
}

template <Scope kScope, class T>
PENSTOCK_DEVICE void iget(const SymmState& state, T* dest, const T* source, Strides strides,
                          uint64_t count, int pe) {
  Company<kScope>::meet();
  if (count != 0) {
    if (is_reached(state, source, reach(strides.from, count, sizeof(T)), pe)) {
      copy_strided<Source::far, kScope>(dest, instance_of(state, source, pe), strides, count);
    } else if (Company<kScope>::rank() == 0) {
      get_row_far(state, dest, source, far_row<T>(count, strides.from, strides.to), pe);
    }
  }
  Company<kScope>::meet();
}

// One word. A store waits for nobody; it is never torn.
template <class T>
PENSTOCK_DEVICE void p(const SymmState& state, T* dest, T value, int pe) {
  if (is_reached(state, dest, sizeof(T), pe)) {
    store_system(reinterpret_cast<Word<T>*>(instance_of(state, dest, pe)), bits_as<Word<T>>(value));
  } else {
    change_far(state, dest, FarChange::set, value, pe);
  }
}

// Waits for a way there and back.
template <class T>
PENSTOCK_DEVICE T g(const SymmState& state, const T* source, int pe) {
  if (!is_reached(state, source, sizeof(T), pe)) return fetch_far(state, source, pe);
  return bits_as<T>(load_system(reinterpret_cast<const Word<T>*>(instance_of(state, source, pe))));
}

}  // namespace penstock::device
