// Words and bytes of this process's own memory, as they are changed, stored and read for PEs of
// other nodes.
#pragma once

#include "far_frame.h"

#include <atomic>

#include "penstock/symm/words.h"

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

// What was stored before is there before; PEs wait for words by looking.
inline void store_bytes(std::byte* to, Bytes from) {
  std::atomic_thread_fence(std::memory_order_release);
  copy_for_others(to, from.data(), from.size());
}

}  // namespace penstock::symm
