// Which ranges of which chunks an update has for itself. An update holds the blocks that it touches
// from before it reads what it merges with until it is visible, so that overlapping updates happen
// one after the other while others run in parallel. Waiting updates are served in order, except
// that they let those pass that they do not overlap. Reads take no locks.
#pragma once

#include "limits.h"
#include "pool.h"

#include <array>

#include "penstock/store.h"

namespace penstock::store {

struct ChunkQueue;

// Part of an update's context; does not move until release().
struct RangeLock : ListNode {
  uint32_t begin = 0;  // blocks [begin, end) of the chunk
  uint32_t end = 0;
  void* owner = nullptr;
  bool held = false;
  ChunkQueue* queue = nullptr;
};

struct ChunkQueue {
  ChainChunk chunk;
  IntrusiveList<RangeLock> held;
  IntrusiveList<RangeLock> waiting;
  ChunkQueue* hash_next = nullptr;
  ChunkQueue* pool_next = nullptr;
};

class ChunkLocks {
 public:
  ChunkLocks() : pool_(limits::kOpsMax) {}
  ~ChunkLocks();

  // True if the range is held at once; else it waits, and release() hands it out later. At most
  // kOpsMax locks may be held or waiting.
  bool acquire(const ChainChunk& chunk, RangeLock& lock);
  // Whether an update holds a part of these blocks, or waits for one.
  bool busy(const ChainChunk& chunk, uint32_t begin, uint32_t end) const;
  // Gives a held range back and calls `grant(lock)` for each that is held instead from now on;
  // `grant` must not call back into this object.
  template <class Grant>
  void release(RangeLock& lock, Grant grant);

 private:
  static bool overlap(const RangeLock& a, const RangeLock& b) {
    return a.begin < b.end && b.begin < a.end;
  }
  // Whether anything in `list` before `until` (or at all) overlaps `lock`.
  static bool any_overlap(IntrusiveList<RangeLock>& list, const RangeLock& lock,
                          const RangeLock* until);
  ChunkQueue& queue_of(const ChainChunk& chunk);
  void drop(ChunkQueue& queue);

  static size_t bucket_of(const ChainChunk& at) {
    return mix64(std::hash<ChunkId>()(at.chunk) ^ at.chain.value) % kBuckets;
  }

  static constexpr size_t kBuckets = limits::kOpsMax;
  static_assert(is_power_of_two(kBuckets));
  std::array<ChunkQueue*, kBuckets> buckets_{};
  Pool<ChunkQueue> pool_;
};

template <class Grant>
void ChunkLocks::release(RangeLock& lock, Grant grant) {
  ASSERT(lock.held && lock.linked());
  ChunkQueue& queue = *lock.queue;
  lock.unlink();
  lock.held = false;
  // It had its range for itself: pairs with acquire().
  DASSERT(!any_overlap(queue.held, lock, nullptr));
  RangeLock* next = queue.waiting.first();
  while (next != nullptr) {
    RangeLock& waiter = *next;
    next = queue.waiting.next(waiter);
    if (any_overlap(queue.held, waiter, nullptr)) continue;
    if (any_overlap(queue.waiting, waiter, &waiter)) continue;
    ASSERT(!waiter.held && waiter.queue == &queue);
    waiter.unlink();
    queue.held.push_back(waiter);
    waiter.held = true;
    grant(waiter);
  }
  if (queue.held.empty()) drop(queue);
}

}  // namespace penstock::store
