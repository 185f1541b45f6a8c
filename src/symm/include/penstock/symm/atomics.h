// Changes of a word in another PE's memory that happen at once. Each ends with invalid_argument
// where there is no such word, and with peer_gone where its PE, of another node, is not reached.
#pragma once

#include <bit>

#include "penstock/symm/group.h"

namespace penstock::symm {

// The unsigned integer of a word's size: floats are carried by it.
template <Word T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// A word in a near PE's memory; null: there is none.
template <Word T>
Bits<T>* word_at(const Group& group, const T* symmetric, uint32_t pe) {
  std::byte* const there = group.at(symmetric, sizeof(T), pe);
  const bool is_word = reinterpret_cast<uintptr_t>(there) % sizeof(T) == 0;
  return is_word ? reinterpret_cast<Bits<T>*>(there) : nullptr;
}

// The same of a PE of another node, or why not.
template <Word T>
Result<T> fetch_far(const Group& group, const T* word, AtomicOp op, T operand, uint32_t pe,
                    T expected = T{}) {
  TRY_ASSIGN(const uint64_t before, group.fetch_far(word,
                                                    {op, sizeof(T), std::bit_cast<Bits<T>>(operand),
                                                     std::bit_cast<Bits<T>>(expected)},
                                                    pe));
  return std::bit_cast<T>(static_cast<Bits<T>>(before));
}

template <Word T>
Result<T> atomic_fetch(const Group& group, const T* source, uint32_t pe) {
  auto* const word = word_at(group, source, pe);
  if (word == nullptr) [[unlikely]]
    return fetch_far(group, source, AtomicOp::fetch, T{}, pe);
  return std::bit_cast<T>(__atomic_load_n(word, __ATOMIC_SEQ_CST));
}

template <Word T>
Status atomic_set(const Group& group, T* dest, T value, uint32_t pe) {
  auto* const word = word_at(group, dest, pe);
  if (word == nullptr) [[unlikely]]
    return group.change_far(dest, {AtomicOp::set, sizeof(T), std::bit_cast<Bits<T>>(value)}, pe);
  __atomic_store_n(word, std::bit_cast<Bits<T>>(value), __ATOMIC_RELEASE);
  return {};
}

template <Word T>
Result<T> atomic_swap(const Group& group, T* dest, T value, uint32_t pe) {
  auto* const word = word_at(group, dest, pe);
  if (word == nullptr) [[unlikely]]
    return fetch_far(group, dest, AtomicOp::swap, value, pe);
  return std::bit_cast<T>(
      __atomic_exchange_n(word, std::bit_cast<Bits<T>>(value), __ATOMIC_SEQ_CST));
}

// What was there before: `value` is there now if it equals `expected`.
template <Word T>
Result<T> atomic_compare_swap(const Group& group, T* dest, T expected, T value, uint32_t pe) {
  auto* const word = word_at(group, dest, pe);
  if (word == nullptr) [[unlikely]]
    return fetch_far(group, dest, AtomicOp::compare_swap, value, pe, expected);
  auto before = std::bit_cast<Bits<T>>(expected);
  __atomic_compare_exchange_n(word, &before, std::bit_cast<Bits<T>>(value), false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return std::bit_cast<T>(before);
}

// `change(word, operand)` is the processor's own fetching operation for `op`.
template <Word T, class Processors>
Result<T> atomic_change(const Group& group, T* dest, AtomicOp op, T operand, uint32_t pe,
                        Processors change) {
  static_assert(std::is_integral_v<T>);
  auto* const word = word_at(group, dest, pe);
  if (word == nullptr) [[unlikely]]
    return fetch_far(group, dest, op, operand, pe);
  return static_cast<T>(change(word, static_cast<Bits<T>>(operand)));
}

// The same where nobody wants to know what was there: a PE of another node says nothing then.
template <Word T, class Processors>
Status atomic_change_only(const Group& group, T* dest, AtomicOp op, T operand, uint32_t pe,
                          Processors change) {
  static_assert(std::is_integral_v<T>);
  auto* const word = word_at(group, dest, pe);
  if (word == nullptr) [[unlikely]]
    return group.change_far(dest, {op, sizeof(T), static_cast<Bits<T>>(operand)}, pe);
  change(word, static_cast<Bits<T>>(operand));
  return {};
}

template <Word T>
Result<T> atomic_fetch_add(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change(group, dest, AtomicOp::add, value, pe, [](auto* word, auto operand) {
    return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
  });
}
template <Word T>
Status atomic_add(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change_only(group, dest, AtomicOp::add, value, pe, [](auto* word, auto operand) {
    __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
  });
}

template <Word T>
Result<T> atomic_fetch_and(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change(group, dest, AtomicOp::bit_and, value, pe, [](auto* word, auto operand) {
    return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
  });
}
template <Word T>
Status atomic_and(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change_only(
      group, dest, AtomicOp::bit_and, value, pe,
      [](auto* word, auto operand) { __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST); });
}

template <Word T>
Result<T> atomic_fetch_or(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change(group, dest, AtomicOp::bit_or, value, pe, [](auto* word, auto operand) {
    return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
  });
}
template <Word T>
Status atomic_or(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change_only(group, dest, AtomicOp::bit_or, value, pe, [](auto* word, auto operand) {
    __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
  });
}

template <Word T>
Result<T> atomic_fetch_xor(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change(group, dest, AtomicOp::bit_xor, value, pe, [](auto* word, auto operand) {
    return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
  });
}
template <Word T>
Status atomic_xor(const Group& group, T* dest, T value, uint32_t pe) {
  return atomic_change_only(
      group, dest, AtomicOp::bit_xor, value, pe,
      [](auto* word, auto operand) { __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST); });
}

}  // namespace penstock::symm
