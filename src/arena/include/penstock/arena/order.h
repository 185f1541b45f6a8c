// The two fences of a sequence lock. The bytes between are copied by processors, copy engines and
// disks, not by atomics, so the order has to come from fences.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::arena {

using Word = std::atomic_ref<uint32_t>;
using LongWord = std::atomic_ref<uint64_t>;
static_assert(Word::is_always_lock_free && LongWord::is_always_lock_free);

// What was loaded before is loaded before what follows. Pairs with order_stores(): a reader that
// sees a byte that was stored after it sees the sequence that was stored before it.
inline void order_loads() {
#if defined(__SANITIZE_THREAD__)  // which knows no fences; x86 orders loads by itself
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

inline void order_stores() {
#if defined(__SANITIZE_THREAD__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

// For words in memory that is mapped read-only: atomic_ref wants them writable, a load does not.
inline uint32_t load_word(const uint32_t& word, std::memory_order order) {
  return Word(const_cast<uint32_t&>(word)).load(order);
}
inline uint64_t load_word(const uint64_t& word, std::memory_order order) {
  return LongWord(const_cast<uint64_t&>(word)).load(order);
}

}  // namespace penstock::arena
