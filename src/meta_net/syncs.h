// Syncs for all that wait for one: whoever comes while one is under way waits for the next.
#pragma once

#include <atomic>
#include <functional>

#include "penstock/engine.h"

namespace penstock::meta_net {

class Syncs {
 public:
  using Sync = std::function<Status()>;
  using Ended = std::function<void(ListNode&, Status)>;

  // `sync` and `ended` run in its thread; `ended` has the item from then on.
  Syncs(Sync sync, Ended ended);
  ~Syncs();  // nothing waits; ends the thread

  // Any thread. What the item is about was done before.
  void submit(ListNode& item);
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  bool do_next(engine::WorkerThreads::Lock& lock);

  const Sync sync_;
  const Ended ended_;
  std::atomic<uint64_t> count_{0};  // relaxed: for people
  engine::Mutex mutex_;
  IntrusiveList<ListNode> waiting_;  // under the mutex
  engine::WorkerThreads threads_;    // last: they use everything above
};

}  // namespace penstock::meta_net
