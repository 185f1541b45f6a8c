// Puts and gets, and single words. All complete before they return where the source of a put, or
// the destination of a get, is concerned; what a put has written is seen by others after fence() or
// quiet().
#pragma once

#include "penstock_device/symm/address.h"
#include "penstock_device/symm/copy.h"

namespace penstock::device {

// Returns at once for those who have done their share: the source must stay until quiet(), for
// warps and blocks.
template <Scope kScope>
PENSTOCK_DEVICE void put_nbi(const SymmState& state, void* dest, const void* source, uint64_t bytes,
                             int pe) {
  if (bytes == 0) return;
  copy<Source::near, kScope>(at(state, dest, bytes, pe), source, bytes);
}

// The source may be written again after it, by all of them: the others have read their shares.
template <Scope kScope>
PENSTOCK_DEVICE void put(const SymmState& state, void* dest, const void* source, uint64_t bytes,
                         int pe) {
  put_nbi<kScope>(state, dest, source, bytes, pe);
  Company<kScope>::meet();
}

template <Scope kScope>
PENSTOCK_DEVICE void get_nbi(const SymmState& state, void* dest, const void* source, uint64_t bytes,
                             int pe) {
  if (bytes == 0) return;
  copy<Source::far, kScope>(dest, at(state, source, bytes, pe), bytes);
}

// All of it is there after it, for all of them.
template <Scope kScope>
PENSTOCK_DEVICE void get(const SymmState& state, void* dest, const void* source, uint64_t bytes,
                         int pe) {
  get_nbi<kScope>(state, dest, source, bytes, pe);
  Company<kScope>::meet();
}

// How many bytes elements with this stride, which is positive, reach over; 0 for none.
PENSTOCK_DEVICE uint64_t reach(int64_t stride, uint64_t count, uint64_t element_bytes) {
  if (count == 0) return 0;
  return (static_cast<uint64_t>(stride) * (count - 1) + 1) * element_bytes;
}

template <Scope kScope, class T>
PENSTOCK_DEVICE void iput(const SymmState& state, T* dest, const T* source, Strides strides,
                          uint64_t count, int pe) {
  if (count != 0) {
    T* const there = at(state, dest, reach(strides.to, count, sizeof(T)), pe);
    copy_strided<Source::near, kScope>(there, source, strides, count);
  }
  Company<kScope>::meet();
}

template <Scope kScope, class T>
PENSTOCK_DEVICE void iget(const SymmState& state, T* dest, const T* source, Strides strides,
                          uint64_t count, int pe) {
  if (count != 0) {
    const T* const there = at(state, source, reach(strides.from, count, sizeof(T)), pe);
    copy_strided<Source::far, kScope>(dest, there, strides, count);
  }
  Company<kScope>::meet();
}

// One word. A store waits for nobody; it is never torn.
template <class T>
PENSTOCK_DEVICE void p(const SymmState& state, T* dest, T value, int pe) {
  store_system(reinterpret_cast<Word<T>*>(at(state, dest, sizeof(T), pe)), bits_as<Word<T>>(value));
}

// Waits for a way there and back.
template <class T>
PENSTOCK_DEVICE T g(const SymmState& state, const T* source, int pe) {
  return bits_as<T>(
      load_system(reinterpret_cast<const Word<T>*>(at(state, source, sizeof(T), pe))));
}

}  // namespace penstock::device
