// Changes of a word in another PE's memory that happen at once. Each ends with invalid_argument
// where Group::at() finds nothing.
#pragma once

#include <bit>

#include "penstock/symm/group.h"

namespace penstock::symm {

// The unsigned integer of a word's size: floats are carried by it.
template <Word T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// A word in a PE's memory, or why there is none.
template <Word T>
Result<Bits<T>*> word_at(const Group& group, const T* symmetric, uint32_t pe) {
  std::byte* const there = group.at(symmetric, sizeof(T), pe);
  if (there == nullptr || reinterpret_cast<uintptr_t>(there) % sizeof(T) != 0)
    return Status(Code::invalid_argument);
  return reinterpret_cast<Bits<T>*>(there);
}

template <Word T>
Result<T> atomic_fetch(const Group& group, const T* source, uint32_t pe) {
  TRY_ASSIGN(auto* const word, word_at(group, source, pe));
  return std::bit_cast<T>(__atomic_load_n(word, __ATOMIC_SEQ_CST));
}

template <Word T>
Status atomic_set(const Group& group, T* dest, T value, uint32_t pe) {
  TRY_ASSIGN(auto* const word, word_at(group, dest, pe));
  __atomic_store_n(word, std::bit_cast<Bits<T>>(value), __ATOMIC_RELEASE);
  return {};
}

template <Word T>
Result<T> atomic_swap(const Group& group, T* dest, T value, uint32_t pe) {
  TRY_ASSIGN(auto* const word, word_at(group, dest, pe));
  return std::bit_cast<T>(
      __atomic_exchange_n(word, std::bit_cast<Bits<T>>(value), __ATOMIC_SEQ_CST));
}

// What was there before: `value` is there now if it equals `expected`.
template <Word T>
Result<T> atomic_compare_swap(const Group& group, T* dest, T expected, T value, uint32_t pe) {
  TRY_ASSIGN(auto* const word, word_at(group, dest, pe));
  auto before = std::bit_cast<Bits<T>>(expected);
  __atomic_compare_exchange_n(word, &before, std::bit_cast<Bits<T>>(value), false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return std::bit_cast<T>(before);
}

// `change(word, operand)` is one of the processor's own fetching operations.
template <Word T, class Change>
Result<T> atomic_change(const Group& group, T* dest, T operand, uint32_t pe, Change change) {
  static_assert(std::is_integral_v<T>);
  TRY_ASSIGN(auto* const word, word_at(group, dest, pe));
  return static_cast<T>(change(word, static_cast<Bits<T>>(operand)));
}

template <Word T>
Result<T> atomic_fetch_add(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change(group, dest, value, pe, [](auto* word, auto operand) {
    return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
  });
}

template <Word T>
Result<T> atomic_fetch_and(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change(group, dest, value, pe, [](auto* word, auto operand) {
    return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
  });
}

template <Word T>
Result<T> atomic_fetch_or(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change(group, dest, value, pe, [](auto* word, auto operand) {
    return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
  });
}

template <Word T>
Result<T> atomic_fetch_xor(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change(group, dest, value, pe, [](auto* word, auto operand) {
    return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
  });
}

}  // namespace penstock::symm
