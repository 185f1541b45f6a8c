// Words and bytes of this process's own memory, as they are changed, stored and read for PEs of
// other nodes.
#pragma once

#include "far_frame.h"

#include <atomic>

namespace penstock::symm {

template <class Word>
uint64_t change_word(std::byte* at, const FarFrame& frame) {
  auto* const word = reinterpret_cast<Word*>(at);
  const auto operand = static_cast<Word>(frame.length);
  switch (static_cast<AtomicOp>(frame.op)) {
    case AtomicOp::fetch:
      return __atomic_load_n(word, __ATOMIC_SEQ_CST);
    case AtomicOp::set:
      __atomic_store_n(word, operand, __ATOMIC_RELEASE);
      return 0;
    case AtomicOp::swap:
      return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case AtomicOp::compare_swap: {
      auto before = static_cast<Word>(frame.extra);
      __atomic_compare_exchange_n(word, &before, operand, false, __ATOMIC_SEQ_CST,
                                  __ATOMIC_SEQ_CST);
      return before;
    }
    case AtomicOp::add:
      return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case AtomicOp::bit_and:
      return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
    case AtomicOp::bit_or:
      return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
    case AtomicOp::bit_xor:
      return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
  }
  return 0;
}

template <class Word>
void store_word(std::byte* to, const std::byte* from) {
  Word value;
  std::memcpy(&value, from, sizeof value);
  __atomic_store_n(reinterpret_cast<Word*>(to), value, __ATOMIC_RELEASE);
}

// A word in its place is stored at once: PEs wait for it by looking.
inline void store_bytes(std::byte* to, Bytes from) {
  if (from.size() == 8 && is_aligned(to, 8)) return store_word<uint64_t>(to, from.data());
  if (from.size() == 4 && is_aligned(to, 4)) return store_word<uint32_t>(to, from.data());
  if (from.size() == 2 && is_aligned(to, 2)) return store_word<uint16_t>(to, from.data());
  // What was stored before is there before.
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(to, from.data(), from.size());
}

// And is read at once.
inline void load_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 8 && is_aligned(from, 8)) {
    const uint64_t value =
        __atomic_load_n(reinterpret_cast<const uint64_t*>(from), __ATOMIC_ACQUIRE);
    std::memcpy(to, &value, sizeof value);
  } else if (bytes == 4 && is_aligned(from, 4)) {
    const uint32_t value =
        __atomic_load_n(reinterpret_cast<const uint32_t*>(from), __ATOMIC_ACQUIRE);
    std::memcpy(to, &value, sizeof value);
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace penstock::symm
