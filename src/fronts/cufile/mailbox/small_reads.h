// Small reads, when a thread makes one after the other: to the GPU by a mailbox of its own, whose
// kernel fetches pinned pages of the page cache; where there are none, the thread copies from the
// page cache itself. Nothing is shared with other threads on the way, where the mover's turn is one
// for all.
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
    Desk* const desk = may_be_small(operation) ? take_desk() : nullptr;
    if (desk == nullptr) return otherwise();
    note_begin(*desk);
    if (!read(*desk, operation)) {
      if (takes_mover(operation)) {
        otherwise();
        mover_taken_.store(false, std::memory_order_relaxed);
      } else if (!copy(*desk, operation)) {
        otherwise();
      }
    }
    leave(*desk);
  }

  static bool may_be_small(const Operation& operation) {
    return !operation.write && operation.memory.length <= engine::kMailboxBytesMax;
  }

 private:
  // Where one thread at a time sits, and nearly always the same.
  struct alignas(64) Desk {
    std::atomic<bool> taken{false};
    uint32_t streak = 0;        // reads that followed close upon one another
    uint32_t unpinned = 0;      // reads since the last look whose pages were not pinned
    uint32_t look_after = 0;    // so many of them
    bool is_look = false;       // the mover shall see this one
    engine::Time last_end{};    // of a read
    engine::Time not_before{};  // no mailbox is tried: the last time there was none to be had
    std::vector<std::unique_ptr<engine::CopyMailbox>> mailboxes;  // by device
  };
  static constexpr size_t kDesks = 64;

  bool takes_mover(const Operation& operation);
  Desk* take_desk();
  static void note_begin(Desk& desk);
  static void note_unpinned(Desk& desk);
  static void leave(Desk& desk);
  engine::CopyMailbox* mailbox_of(Desk& desk, const Operation& operation);
  bool read(Desk& desk, Operation& operation);
  bool copy(Desk& desk, Operation& operation);
  static bool send(Desk& desk, engine::CopyMailbox& mailbox, Operation& operation,
                   const std::byte* source, uint64_t length);

  engine::DeviceMemory& devices_;
  local::LocalSource& source_;
  std::array<Desk, kDesks> desks_;
  std::atomic<bool> mover_taken_{false};  // by one of the larger reads
};

}  // namespace penstock::cufile
