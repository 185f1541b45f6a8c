// One sync for all threads that ask for one at the same time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "penstock/base.h"

namespace penstock::kv {

// Thread safe.
class SyncGroup {
 public:
  // `sync` runs on one of the asking threads, never twice at once.
  explicit SyncGroup(std::function<Status()> sync) : sync_(std::move(sync)) {}

  // Returns the status of a sync that began after the call.
  Status wait();

 private:
  const std::function<Status()> sync_;
  std::mutex mutex_;
  std::condition_variable finished_changed_;
  uint64_t started_ = 0;
  uint64_t finished_ = 0;
  // The last round that failed and how. A waiter whose round succeeded but that wakes only after
  // a later failure is told of that: better a needless alarm than a missed one.
  uint64_t failed_ = 0;
  Status failure_;
};

}  // namespace penstock::kv
