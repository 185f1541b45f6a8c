// For threads that may block (mount workers, control sockets, commands): start operations on a
// shard's loop and wait for them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "penstock/engine/loop.h"

namespace penstock::engine {

// A Parker that needs nothing but a futex; for loops without a disk.
class FutexParker final : public Parker {
 public:
  explicit FutexParker(const Clock& clock) : clock_(clock) {}
  void park(Time deadline) override;
  void unpark() override;

 private:
  const Clock& clock_;
  std::atomic<uint32_t> signalled_{0};
};

// Runs `start` on `loop` with an Op whose completion wakes the caller, and waits for it. `start`
// runs in the loop's thread and must lead to exactly one completion of the Op given to it, by
// loop.complete() or as the sub-operation's end. Returns that Op's status.
class BlockingCaller {
 public:
  virtual ~BlockingCaller() = default;
  virtual Status call(Loop& loop, const std::function<void(Op& done)>& start) = 0;
};

// For nodes: a thread of its own polls the loop, and the caller sleeps. Thread safe.
BlockingCaller& thread_caller();

// For programs with one thread: the caller itself polls the loop until the end. In a simulation,
// which polls its loops itself, the same as thread_caller().
class PollingCaller final : public BlockingCaller {
 public:
  Status call(Loop& loop, const std::function<void(Op& done)>& start) override;
};

}  // namespace penstock::engine
