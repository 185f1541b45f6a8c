// The proxy's side of the ring by which kernels ask for memory of far PEs, and of the queue of
// changes that kernels make for those. The words are in penstock_device/symm/far_layout.h.
#pragma once

#include "penstock_device/symm/far_layout.h"

#include "penstock/base.h"

namespace penstock::symm {

// Where everything lies in the ring's host memory.
struct AskedGeometry {
  uint32_t entries = 0;  // a power of two

  // Rounds `entries` up; invalid_argument when it is more than device::kFarEntriesMax.
  static Result<AskedGeometry> make(uint32_t entries);

  static constexpr uint64_t kEntriesAt = 4096;
  uint64_t answers_at() const { return kEntriesAt + uint64_t{entries} * sizeof(device::FarEntry); }
  uint64_t changes_at() const {
    return answers_at() + uint64_t{entries} * sizeof(device::FarEntry);
  }
  uint64_t host_bytes() const {
    return align_up(changes_at() + sizeof(device::FarChanges), uint64_t{4096});
  }
};

// What kernels write is foreign input: whatever it holds, no access leaves the memory, and what is
// taken is to be checked. One thread.
class AskedQueue {
 public:
  // `memory` is zeroed, of geometry.host_bytes() and aligned to a page.
  AskedQueue(MutableBytes memory, AskedGeometry geometry, uint32_t pes);

  struct Taken {
    uint64_t position = 0;  // also that of its answer
    device::FarAsk asked{};
  };
  // The next request; it stays the next one until take(). False: none has come whole.
  bool peek(Taken* out) const;
  void take();
  // Gives the room of what was taken back to kernels.
  void publish();
  bool has_work() const;

  void answer(uint64_t position, uint64_t value);
  void fail(uint64_t position, device::SymmFailure why);
  // Everything that was asked of the PE before this flush is done.
  void complete(uint32_t pe, uint64_t flush);

  // At most device::kFarPosted that are not served. Gives its number.
  uint64_t post(const device::FarPosted& change);
  uint64_t posted() const { return posted_; }
  // How many have been made; a kernel's word, so never more than were posted.
  uint64_t served() const;
  uint64_t before(uint64_t number) const;

  // For kernels: addresses as these see them. The caller adds what is in the GPU's memory.
  device::SymmFar view() const;

 private:
  bool is_new(uint64_t position) const;
  uint64_t word(uint64_t position, uint32_t which) const;
  uint32_t entries_at_head() const;
  void store_answer(uint64_t position, uint64_t value, uint64_t flags);

  const AskedGeometry geometry_;
  const uint32_t log2_;
  device::FarHeader* const header_;
  device::FarEntry* const entries_;
  device::FarEntry* const answers_;
  device::FarChanges* const changes_;
  uint64_t head_ = 0;
  uint64_t posted_ = 0;
};

}  // namespace penstock::symm
