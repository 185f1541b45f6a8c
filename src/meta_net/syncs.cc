#include "syncs.h"

#include <utility>

namespace penstock::meta_net {

Syncs::Syncs(Sync sync, Ended ended)
    : sync_(std::move(sync)),
      ended_(std::move(ended)),
      threads_(mutex_, {.name = "meta sync", .what = "a thread for syncs of meta", .count_max = 1},
               [this](engine::WorkerThreads::Lock& lock) { return do_next(lock); }) {
  ASSERT(sync_ && ended_);
}

Syncs::~Syncs() {
  threads_.stop();
  ASSERT(waiting_.empty());
}

void Syncs::submit(ListNode& item) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(item);
  }
  threads_.wake();
}

bool Syncs::do_next(engine::WorkerThreads::Lock& lock) {
  if (waiting_.empty()) return false;
  IntrusiveList<ListNode> together;
  together.take_all(waiting_);
  lock.unlock();
  const Status status = sync_();
  count_.fetch_add(1, std::memory_order_relaxed);
  while (ListNode* const item = together.pop_front()) ended_(*item, status);
  lock.lock();
  return true;
}

}  // namespace penstock::meta_net
