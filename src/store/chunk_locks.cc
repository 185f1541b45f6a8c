#include "chunk_locks.h"

namespace penstock::store {

ChunkLocks::~ChunkLocks() {
  // A target may be destroyed with updates under way: their contexts go with it.
  for (ChunkQueue* queue : buckets_) {
    for (; queue != nullptr; queue = queue->hash_next) {
      while (queue->held.pop_front() != nullptr) continue;
      while (queue->waiting.pop_front() != nullptr) continue;
    }
  }
}

bool ChunkLocks::any_overlap(IntrusiveList<RangeLock>& list, const RangeLock& lock,
                             const RangeLock* until) {
  for (RangeLock* other = list.first(); other != until; other = list.next(*other)) {
    if (overlap(*other, lock)) return true;
  }
  return false;
}

ChunkQueue& ChunkLocks::queue_of(const ChainChunk& chunk) {
  ChunkQueue*& head = buckets_[bucket_of(chunk)];
  for (ChunkQueue* queue = head; queue != nullptr; queue = queue->hash_next) {
    if (queue->chunk == chunk) return *queue;
  }
  ChunkQueue* queue = pool_.take();
  ASSERT(queue != nullptr);
  queue->chunk = chunk;
  queue->hash_next = std::exchange(head, queue);
  return *queue;
}

void ChunkLocks::drop(ChunkQueue& queue) {
  ASSERT(queue.waiting.empty());
  ChunkQueue** link = &buckets_[bucket_of(queue.chunk)];
  while (*link != &queue) link = &(*link)->hash_next;
  *link = queue.hash_next;
  pool_.give(queue);
}

bool ChunkLocks::busy(const ChainChunk& chunk, uint32_t begin, uint32_t end) const {
  ChunkQueue* queue = buckets_[bucket_of(chunk)];
  while (queue != nullptr && queue->chunk != chunk) queue = queue->hash_next;
  if (queue == nullptr) return false;
  RangeLock range;
  range.begin = begin;
  range.end = end;
  return any_overlap(queue->held, range, nullptr) || any_overlap(queue->waiting, range, nullptr);
}

bool ChunkLocks::acquire(const ChainChunk& chunk, RangeLock& lock) {
  ASSERT(lock.begin < lock.end && !lock.held && !lock.linked());
  ChunkQueue& queue = queue_of(chunk);
  lock.queue = &queue;
  lock.held = !any_overlap(queue.held, lock, nullptr) && !any_overlap(queue.waiting, lock, nullptr);
  (lock.held ? queue.held : queue.waiting).push_back(lock);
  return lock.held;
}

}  // namespace penstock::store
