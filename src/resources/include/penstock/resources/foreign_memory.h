// Memory of an application, mapped here from a descriptor that it sent.
#pragma once

#include <memory>

#include "penstock/base.h"
#include "penstock/resources/accounts.h"
#include "penstock/resources/bus_guard.h"

namespace penstock::resources {

class ForeignMemory {
 public:
  // Maps [offset, offset + size) of `fd`, shared and writable. Accepts shared memory only (a memfd,
  // a file in /dev/shm, huge pages): mapping any other file would let its owner's file system stall
  // this process. `must_be_sealed`: the memory can never shrink (F_SEAL_SHRINK).
  // No page of it is made here: its owner has made them, or an access breaks the guard.
  // Whole pages of the file are mapped, which may be huge ones, so more than asked for.
  // `account` pays for what this costs as long as it lives; busy where that has not enough.
  static Outcome<std::unique_ptr<ForeignMemory>> map(const std::shared_ptr<Account>& account,
                                                     int fd, uint64_t offset, uint64_t size,
                                                     bool must_be_sealed);
  ~ForeignMemory();
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;

  MutableBytes bytes() const { return bytes_; }
  const BusGuard& guard() const { return guard_; }
  // False where the kernel does not help: then a touch of a missing page makes it.
  bool is_fenced() const { return fenced_; }
  // What is mapped for it.
  uint64_t mapped_bytes() const { return mapping_.size(); }

 private:
  struct Charges {
    Charge guard, mapping, heap;
  };
  static Result<Charges> charge(const std::shared_ptr<Account>& account, uint64_t bytes);
  ForeignMemory(Charges charges, bool fenced, MutableBytes mapping, MutableBytes bytes,
                BusGuard guard)
      : charges_(std::move(charges)),
        fenced_(fenced),
        mapping_(mapping),
        bytes_(bytes),
        guard_(std::move(guard)) {}
  const Charges charges_;  // until all else is gone
  const bool fenced_;
  MutableBytes mapping_;
  MutableBytes bytes_;
  BusGuard guard_;
};

// Whether `fd` is shared memory: asking never calls into a file system.
bool is_shared_memory(int fd);
extern const char* const kNoSharedMemory;

// For people: what to do where an account has not enough.
extern const char* const kShareTaken;

// Whether `fd` is an eventfd: then waiting for it cannot call into a foreign file system.
bool is_eventfd(int fd);
// Whether `fd` is a file that has a name somewhere, and so neither a socket nor anything that could
// hold one: one end of a session's own socket, kept here, would keep the session alive.
bool is_named_file(int fd);

}  // namespace penstock::resources
