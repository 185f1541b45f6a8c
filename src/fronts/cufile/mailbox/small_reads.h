// Small reads, when a thread makes one after the other: to the GPU by a mailbox of its own, whose
// kernel fetches pinned pages of the page cache; where there are none, the thread copies from the
// page cache itself. Nothing is shared with other threads on the way, while the mover is driven by
// one thread at a time.
//
// A mailbox's kernel lingers on the GPU, so a read must follow close upon the thread's last ones
// before it goes this way; what is not in the page cache, or finds the GPU full, goes the other. So
// does, where nothing is pinned, one of the larger ones at a time: no processor copies what the
// mover brings.
#pragma once

#include "../backend.h"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/local.h"

namespace penstock::cufile {

class SmallReads {
 public:
  SmallReads(engine::DeviceMemory& devices, local::LocalSource& source)
      : devices_(devices), source_(source) {}

  // Carries the operation out, itself or by `otherwise`. Thread safe.
  template <class Otherwise>
  void run(Operation& operation, const Otherwise& otherwise) {
    ThreadState* const state = may_be_small(operation) ? take_state() : nullptr;
    if (state == nullptr) return otherwise();
    note_begin(*state);
    if (!read(*state, operation)) {
      if (takes_mover(operation)) {
        otherwise();
        mover_taken_.store(false, std::memory_order_relaxed);
      } else if (!copy(*state, operation)) {
        otherwise();
      }
    }
    leave(*state);
  }

  static bool may_be_small(const Operation& operation) {
    return !operation.write && operation.memory.length <= engine::kMailboxBytesMax;
  }

 private:
  // What is kept of one thread's reads, and its mailboxes. Used by one thread at a time, nearly
  // always the same.
  struct alignas(64) ThreadState {
    std::atomic<bool> taken{false};
    uint32_t streak = 0;        // reads that followed close upon one another
    uint32_t unpinned = 0;      // reads since the last look whose pages were not pinned
    uint32_t look_after = 0;    // after so many of them there is a look
    bool is_look = false;       // this read goes by the mover, which looks whether to pin its pages
    engine::Time last_end{};    // of a read
    engine::Time not_before{};  // no mailbox is tried before: the last try failed
    std::vector<std::unique_ptr<engine::CopyMailbox>> mailboxes;  // by device
  };
  static constexpr size_t kThreadStates = 64;

  bool takes_mover(const Operation& operation);
  ThreadState* take_state();
  static void note_begin(ThreadState& state);
  static void note_unpinned(ThreadState& state);
  static void leave(ThreadState& state);
  engine::CopyMailbox* mailbox_of(ThreadState& state, const Operation& operation);
  bool read(ThreadState& state, Operation& operation);
  bool copy(ThreadState& state, Operation& operation);
  static bool send(ThreadState& state, engine::CopyMailbox& mailbox, Operation& operation,
                   const std::byte* source, uint64_t length);

  engine::DeviceMemory& devices_;
  local::LocalSource& source_;
  std::array<ThreadState, kThreadStates> states_;
  std::atomic<bool> mover_taken_{false};  // by one of the larger reads
};

}  // namespace penstock::cufile
