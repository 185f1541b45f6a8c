// Keeps writers of a file's bytes out while its end is moved back.
#pragma once

#include <atomic>

#include "penstock/engine.h"

namespace penstock::inodes {

// Writers enter and leave with one atomic step each. A cut closes the gate, waits
// until those inside have left, and opens it again; writers that came meanwhile wait in order
// without polling. Thread safe.
class WriteGate {
 public:
  // Completes on `loop`.
  struct Waiter : engine::Op {
    engine::Loop* loop = nullptr;

   private:
    friend class WriteGate;
    bool waiting_ = false;  // under the gate's mutex
  };

  WriteGate() = default;
  ~WriteGate() {
    ASSERT(waiters_.empty() && drain_ == nullptr);
    ASSERT(state_.load(std::memory_order_relaxed) == 0);
  }

  // False when the gate is closed: then wait() and try again.
  bool try_enter() {
    // Acquire pairs with the release in open(): a writer that enters sees the new length.
    if ((state_.fetch_add(1, std::memory_order_acquire) & kClosed) == 0) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() {
    // Release, with the acquire of close() or of the mutex in drained(): what writers changed is
    // seen by the cut that closed the gate.
    const uint64_t before = state_.fetch_sub(1, std::memory_order_acq_rel);
    ASSERT((before & ~kClosed) != 0);
    if (before == (kClosed | 1)) [[unlikely]]
      drained();
  }

  // Completes `waiter` with ok at the next open(). False, and nothing happens, if the gate is open.
  bool wait(Waiter& waiter);
  // True if `waiter` was waiting: then it is not completed.
  bool cancel(Waiter& waiter);

  // One closer at a time. `drained` completes once no writer is inside.
  void close(Waiter& drained);
  void open();

 private:
  void drained();

  static constexpr uint64_t kClosed = uint64_t{1} << 63;
  std::atomic<uint64_t> state_{0};  // kClosed and the number of writers inside
  engine::Mutex mutex_;
  IntrusiveList<Waiter> waiters_;
  Waiter* drain_ = nullptr;
};

}  // namespace penstock::inodes
