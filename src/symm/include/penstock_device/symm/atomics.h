// Words of 4 and 8 bytes that change at once for all PEs. They order nothing: fence() does.
//
// What returns the old value waits for a way there and back; what does not waits for nobody.
#pragma once

#include "penstock_device/symm/far.h"

namespace penstock::device {

template <class T>
PENSTOCK_DEVICE bool is_word_reached(const SymmState& state, const T* word, int pe) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "words that change at once");
  return is_reached(state, word, sizeof(T), pe);
}
template <class T>
PENSTOCK_DEVICE Word<T>* word_at(const SymmState& state, T* word, int pe) {
  return reinterpret_cast<Word<T>*>(instance_of(state, word, pe));
}

template <class T>
PENSTOCK_DEVICE T atomic_fetch(const SymmState& state, const T* source, int pe) {
  if (!is_word_reached(state, source, pe)) return fetch_far(state, source, pe);
  return bits_as<T>(load_system(reinterpret_cast<const Word<T>*>(instance_of(state, source, pe))));
}
template <class T>
PENSTOCK_DEVICE void atomic_set(const SymmState& state, T* dest, T value, int pe) {
  if (!is_word_reached(state, dest, pe)) return change_far(state, dest, FarChange::set, value, pe);
  store_system(word_at(state, dest, pe), bits_as<Word<T>>(value));
}
template <class T>
PENSTOCK_DEVICE T atomic_swap(const SymmState& state, T* dest, T value, int pe) {
  if (!is_word_reached(state, dest, pe))
    return fetch_far(state, dest, FarChange::swap, value, T{}, pe);
  return bits_as<T>(swap_system(word_at(state, dest, pe), bits_as<Word<T>>(value)));
}
template <class T>
PENSTOCK_DEVICE T atomic_compare_swap(const SymmState& state, T* dest, T expected, T value,
                                      int pe) {
  if (!is_word_reached(state, dest, pe))
    return fetch_far(state, dest, FarChange::compare_swap, value, expected, pe);
  return bits_as<T>(compare_swap_system(word_at(state, dest, pe), bits_as<Word<T>>(expected),
                                        bits_as<Word<T>>(value)));
}

// Integers only: signed ones are added as unsigned ones are.
template <class T>
PENSTOCK_DEVICE T atomic_fetch_add(const SymmState& state, T* dest, T value, int pe) {
  if (!is_word_reached(state, dest, pe))
    return fetch_far(state, dest, FarChange::add, value, T{}, pe);
  return bits_as<T>(fetch_add_system(word_at(state, dest, pe), bits_as<Word<T>>(value)));
}
template <class T>
PENSTOCK_DEVICE void atomic_add(const SymmState& state, T* dest, T value, int pe) {
  if (!is_word_reached(state, dest, pe)) return change_far(state, dest, FarChange::add, value, pe);
  add_system(word_at(state, dest, pe), bits_as<Word<T>>(value));
}
template <class T>
PENSTOCK_DEVICE T atomic_fetch_inc(const SymmState& state, T* dest, int pe) {
  return atomic_fetch_add(state, dest, static_cast<T>(1), pe);
}
template <class T>
PENSTOCK_DEVICE void atomic_inc(const SymmState& state, T* dest, int pe) {
  atomic_add(state, dest, static_cast<T>(1), pe);
}
template <class T>
PENSTOCK_DEVICE T atomic_fetch_and(const SymmState& state, T* dest, T value, int pe) {
  if (!is_word_reached(state, dest, pe))
    return fetch_far(state, dest, FarChange::bit_and, value, T{}, pe);
  return bits_as<T>(fetch_and_system(word_at(state, dest, pe), bits_as<Word<T>>(value)));
}
template <class T>
PENSTOCK_DEVICE void atomic_and(const SymmState& state, T* dest, T value, int pe) {
  if (!is_word_reached(state, dest, pe))
    return change_far(state, dest, FarChange::bit_and, value, pe);
  and_system(word_at(state, dest, pe), bits_as<Word<T>>(value));
}
template <class T>
PENSTOCK_DEVICE T atomic_fetch_or(const SymmState& state, T* dest, T value, int pe) {
  if (!is_word_reached(state, dest, pe))
    return fetch_far(state, dest, FarChange::bit_or, value, T{}, pe);
  return bits_as<T>(fetch_or_system(word_at(state, dest, pe), bits_as<Word<T>>(value)));
}
template <class T>
PENSTOCK_DEVICE void atomic_or(const SymmState& state, T* dest, T value, int pe) {
  if (!is_word_reached(state, dest, pe))
    return change_far(state, dest, FarChange::bit_or, value, pe);
  or_system(word_at(state, dest, pe), bits_as<Word<T>>(value));
}
template <class T>
PENSTOCK_DEVICE T atomic_fetch_xor(const SymmState& state, T* dest, T value, int pe) {
  if (!is_word_reached(state, dest, pe))
    return fetch_far(state, dest, FarChange::bit_xor, value, T{}, pe);
  return bits_as<T>(fetch_xor_system(word_at(state, dest, pe), bits_as<Word<T>>(value)));
}
template <class T>
PENSTOCK_DEVICE void atomic_xor(const SymmState& state, T* dest, T value, int pe) {
  if (!is_word_reached(state, dest, pe))
    return change_far(state, dest, FarChange::bit_xor, value, pe);
  xor_system(word_at(state, dest, pe), bits_as<Word<T>>(value));
}

}  // namespace penstock::device
