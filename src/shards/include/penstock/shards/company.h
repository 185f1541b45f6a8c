// Which kinds of operations are there at all, on any shard of a node.
#pragma once

#include <atomic>

#include "penstock/engine.h"
#include "penstock/shards/limits.h"

namespace penstock::shards {

// What the schedulers of one node know of one another. Thread safe.
class Company {
 public:
  // A small operation came. Mostly no more than a look.
  void note_small(engine::Time now) {
    const int64_t at = now.time_since_epoch().count();
    const int64_t since = at - seen_.load(std::memory_order_relaxed);
    if (since <= limits::kSmallSeenStep.count()) [[likely]]
      return;
    seen_.store(at, std::memory_order_relaxed);
    if (since <= limits::kSmallManyGap.count()) many_.store(at, std::memory_order_relaxed);
  }
  bool has_small(engine::Time now) const {
    const int64_t seen = seen_.load(std::memory_order_relaxed);
    return now.time_since_epoch().count() - seen < limits::kSmallSeenFor.count();
  }

  // They follow one another closely.
  bool has_many_small(engine::Time now) const {
    const int64_t many = many_.load(std::memory_order_relaxed);
    return now.time_since_epoch().count() - many < limits::kSmallManyFor.count();
  }

 private:
  // Relaxed: hints. At first long ago, on every clock.
  std::atomic<int64_t> seen_{-limits::kSmallSeenFor.count()};
  std::atomic<int64_t> many_{-limits::kSmallManyFor.count()};
};

}  // namespace penstock::shards
