// Moving one file's bytes through a ring from a thread of its own: used by import and verify.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "penstock/console.h"

namespace penstock::apps {

// What all workers of one command share: a region cut into slots, and a ring with a lane each. Both
// are made when they are first needed: a tree of small files never does. Thread safe.
class TransferPool {
 public:
  static constexpr size_t kSlotBytes = kMiB;
  static constexpr size_t kSlots = 8;  // in flight per worker

  TransferPool(penstock_session* session, uint32_t workers)
      : session_(session), workers_(workers) {}

  // 0, or a negative errno and no ring.
  int make();
  // Once it is made.
  penstock_region* region() const { return region_.get(); }
  penstock_ring* ring() const { return ring_.get(); }

 private:
  penstock_session* const session_;
  const uint32_t workers_;
  std::mutex mutex_;
  console::Region region_;
  console::Ring ring_;
};

// One worker's share. Owner thread only.
class Transfer {
 public:
  // Called with each piece: its offset in the file and memory that holds (verify) or wants (import)
  // its bytes. Returns 0 or a positive errno that ends the transfer.
  using Fill = std::function<int(uint64_t offset, std::span<std::byte> memory)>;
  using Check = std::function<int(uint64_t offset, std::span<const std::byte> memory)>;

  Transfer(TransferPool& pool, uint32_t worker)
      : pool_(pool), base_(uint64_t{worker} * TransferPool::kSlots * TransferPool::kSlotBytes) {}

  // Writes [begin, end) of `file` with what `fill` provides. 0 or a negative errno.
  int write(penstock_file file, uint64_t begin, uint64_t end, const Fill& fill);
  // Reads [0, length) of `file` and shows it to `check`, in any order. 0 or a negative errno; a
  // short read is -ENODATA.
  int read(penstock_file file, uint64_t length, const Check& check);

 private:
  struct Slot {
    uint64_t offset = 0;
    uint64_t length = 0;
    bool busy = false;
  };
  std::span<std::byte> memory(size_t slot, uint64_t length) const;
  int submit(uint8_t operation, penstock_file file, size_t slot);
  // Waits for one completion at least and frees its slot. `check` sees the bytes of reads.
  int reap(const Check* check);
  int drain(int result);

  // Takes what it needs of the pool, once. 0 or a negative errno.
  int prepare();

  TransferPool& pool_;
  penstock_ring* ring_ = nullptr;
  penstock_region* region_ = nullptr;
  uint64_t base_;
  Slot slots_[TransferPool::kSlots];
  size_t in_flight_ = 0;
};

}  // namespace penstock::apps
