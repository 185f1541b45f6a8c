// Atomic operations of the host, and waits on streams, with their types.
#pragma once

#include "typed_memory.h"

namespace penstock::nvshmem {

// ---- atomic operations: done after nvshmem_quiet(), or when they return the old value ----

template <class T>
symm::ChangeOfWord change_of(symm::ChangeBy by, T value, T expected = T{}) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "words that change at once");
  return {by, sizeof(T), bits_of(value), bits_of(expected)};
}

// An aligned word is never torn by a copy engine.
template <class T>
T atomic_fetch(const char* call, const T* source, int pe) {
  return g(call, source, pe);
}
template <class T>
void atomic_set(const char* call, T* dest, T value, int pe) {
  p(call, dest, value, pe);
}
template <class T>
T atomic_swap(const char* call, T* dest, T value, int pe) {
  return from_bits<T>(fetch_word(call, dest, change_of(symm::ChangeBy::swap, value), pe));
}
template <class T>
T atomic_compare_swap(const char* call, T* dest, T cond, T value, int pe) {
  return from_bits<T>(
      fetch_word(call, dest, change_of(symm::ChangeBy::compare_swap, value, cond), pe));
}

#define PENSTOCK_NVSHMEM_ATOMIC(NAME, CHANGE)                                                  \
  template <class T>                                                                           \
  T atomic_fetch_##NAME(const char* call, T* dest, T value, int pe) {                          \
    return from_bits<T>(fetch_word(call, dest, change_of(symm::ChangeBy::CHANGE, value), pe)); \
  }                                                                                            \
  template <class T>                                                                           \
  void atomic_##NAME(const char* call, T* dest, T value, int pe) {                             \
    change_word(call, dest, change_of(symm::ChangeBy::CHANGE, value), pe);                     \
  }
PENSTOCK_NVSHMEM_ATOMIC(add, add)
PENSTOCK_NVSHMEM_ATOMIC(and, bit_and)
PENSTOCK_NVSHMEM_ATOMIC(or, bit_or)
PENSTOCK_NVSHMEM_ATOMIC(xor, bit_xor)
#undef PENSTOCK_NVSHMEM_ATOMIC

template <class T>
T atomic_fetch_inc(const char* call, T* dest, int pe) {
  return atomic_fetch_add(call, dest, static_cast<T>(1), pe);
}
template <class T>
void atomic_inc(const char* call, T* dest, int pe) {
  atomic_add(call, dest, static_cast<T>(1), pe);
}

// ---- waits on streams ----

template <class T>
symm::WordsToWaitFor words_of(const T* at, size_t count, const int* status, int comparison) {
  return {at, count, sizeof(T), std::is_signed_v<T>, comparison, 0, nullptr, status};
}

template <class T>
void wait_until_on_stream(const char* call, T* ivar, int cmp, T cmp_value, cudaStream_t stream) {
  symm::WordsToWaitFor words = words_of(ivar, 1, nullptr, cmp);
  words.value = bits_of(cmp_value);
  wait_on(call, words, stream);
}
template <class T>
void wait_until_all_on_stream(const char* call, T* ivars, size_t nelems, const int* status, int cmp,
                              T cmp_value, cudaStream_t stream) {
  symm::WordsToWaitFor words = words_of(ivars, nelems, status, cmp);
  words.value = bits_of(cmp_value);
  wait_on(call, words, stream);
}
template <class T>
void wait_until_all_vector_on_stream(const char* call, T* ivars, size_t nelems, const int* status,
                                     int cmp, T* cmp_values, cudaStream_t stream) {
  symm::WordsToWaitFor words = words_of(ivars, nelems, status, cmp);
  words.values = cmp_values;
  wait_on(call, words, stream);
}

}  // namespace penstock::nvshmem
