// How much was read of parts of files without pinned pages, since a part was pinned last: pinning
// one takes about as long as copying all of it, and is worth it for what is read more than once.
#pragma once

#include "limits.h"

#include <atomic>
#include <vector>

#include "penstock/base.h"

namespace penstock::local {

// Any thread. Parts are told apart by a hash: two that share a counter seem to be read more than
// they are, and one of them may be pinned too early.
class ReadBytes {
 public:
  // Returns how much it was before.
  uint64_t add(uint64_t key, uint64_t bytes) {
    return counter(key).fetch_add(bytes, std::memory_order_relaxed);
  }
  uint64_t of(uint64_t key) { return counter(key).load(std::memory_order_relaxed); }
  void forget(uint64_t key) { counter(key).store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t>& counter(uint64_t key) { return counters_[mix64(key) % counters_.size()]; }

  // Relaxed: nothing is ordered by them.
  std::vector<std::atomic<uint64_t>> counters_ =
      std::vector<std::atomic<uint64_t>>(limits::kReadBytesCounters);
};

}  // namespace penstock::local
