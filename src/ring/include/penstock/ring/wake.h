// How the two sides wake each other. Neither makes a system call while the other is awake.
//
// To sleep: set the own word, then look at the queue once more; sleep only if it is still empty. To
// publish: move the tail, then look at the other's word. All four accesses are sequentially
// consistent, so in their single order either the sleeper sees the tail or the publisher sees the
// word: no wake-up is lost.
#pragma once

#include <atomic>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/ring/layout.h"

namespace penstock::ring {

using Word = std::atomic_ref<uint32_t>;
static_assert(Word::is_always_lock_free && Word::required_alignment == 4);

// A time on CLOCK_MONOTONIC in nanoseconds.
inline constexpr uint64_t kForever = UINT64_MAX;

// Sleeps while `word` is `expected`, until woken or `deadline`; may return early for no reason. The
// word may be shared between processes. False when the deadline has passed.
bool futex_wait(uint32_t& word, uint32_t expected, uint64_t deadline);
void futex_wake(uint32_t& word);

// One instruction that tells the processor that this is a spin loop.
inline void pause() {
  __builtin_ia32_pause();
}

}  // namespace penstock::ring
