// Protection from memory that its owner shrinks. An application keeps the file behind a region or a
// ring, and when it truncates it (or its file system is full when a page is first touched) the
// next access by the processor here raises SIGBUS. A guard turns that into a mark: the handler puts
// zeroed private memory in the place of the whole mapping, marks the guard broken and lets the
// access go on. The operation that used the memory looks at the mark afterwards and ends with
// EFAULT.
//
// Accesses by the kernel (io_uring) need no guard: they end with EFAULT by themselves.
#pragma once

#include <atomic>

#include "penstock/base.h"

namespace penstock::resources {

class BusGuard {
 public:
  // Installs the signal handler, once per process. Faults outside guarded memory go to the handler
  // that was there before.
  static void install();

  // Guards a whole mapping until destroyed; destroy it before unmapping. Empty if the table is
  // full. Begins and ends with pages of the mapping, which may be huge ones: what takes their place
  // cannot be smaller.
  static Result<BusGuard> over(MutableBytes mapping);
  BusGuard() = default;
  BusGuard(BusGuard&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  BusGuard& operator=(BusGuard&& other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~BusGuard();

  // True once an access found no memory. Any thread.
  bool broken() const;

  struct Slot;

 private:
  explicit BusGuard(Slot* slot) : slot_(slot) {}
  Slot* slot_ = nullptr;
};

}  // namespace penstock::resources
