#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "penstock/ring.h"

namespace penstock::ring {

bool futex_wait(uint32_t& word, uint32_t expected, uint64_t deadline) {
  timespec until{};
  const timespec* limit = nullptr;
  if (deadline <= static_cast<uint64_t>(INT64_MAX)) {
    until = {static_cast<time_t>(deadline / 1'000'000'000),
             static_cast<long>(deadline % 1'000'000'000)};
    limit = &until;
  }
  // FUTEX_WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC; without the private flag the word
  // may be woken from another process.
  const long result = ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, limit, nullptr,
                                FUTEX_BITSET_MATCH_ANY);
  return result == 0 || errno != ETIMEDOUT;
}

void futex_wake(uint32_t& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace penstock::ring
