// The proxy's side of a ring for kernels: takes what kernels ask for and answers. The words and the
// order of things are in penstock_device/layout.h.
#pragma once

#include "penstock_device.h"

#include <optional>
#include <span>

#include "penstock/base.h"

namespace penstock::ring {

// Where everything lies in the ring's host memory and in its GPU memory.
struct KernelGeometry {
  uint32_t entries = 0;  // a power of two

  // Rounds `entries` up; invalid_argument when it is not 1 to device::kEntriesMax.
  static Result<KernelGeometry> make(uint32_t entries);

  uint64_t answers_offset() const { return device::kHeaderBytes + uint64_t{entries} * 16; }
  uint64_t again_offset() const { return answers_offset() + uint64_t{entries} * 16; }
  // An image of the GPU's part, from which that is filled, and into which it is copied for a look.
  uint64_t image_offset() const { return again_offset() + uint64_t{entries} * 8; }
  uint64_t host_bytes() const { return align_up(image_offset() + device_bytes(), 4096); }

  uint64_t constants_offset() const { return sizeof(device::Control); }
  uint64_t free_for_offset() const { return constants_offset() + sizeof(device::Constants); }
  uint64_t hints_offset() const { return align_up(free_for_offset() + uint64_t{entries} * 4, 128); }
  uint64_t device_bytes() const { return hints_offset() + uint64_t{device::kHints} * 16; }
};

// The lap of the last request at `index` when `head` have been taken in all; nothing where none
// was.
std::optional<uint32_t> lap_taken(uint64_t head, uint32_t index, uint32_t entries_log2);

// Everything in the memory that kernels write is foreign input: whatever it holds, no access leaves
// the memory. One thread takes; answer() any thread, one at a time for each position.
class KernelQueue {
 public:
  // `memory` is zeroed, of geometry.host_bytes() and aligned to a page; writes header and image.
  KernelQueue(MutableBytes memory, KernelGeometry geometry);

  // A request that waits for its answer, which goes to the same index, lap and attempt.
  struct Taken {
    uint32_t index = 0;
    uint32_t lap = 0;
    uint8_t attempt = 0;
    bool by_copy = false;
    device::Descriptor descriptor{};
  };
  // Up to out.size() requests: those that ask again first, then new ones in order. A new one shows
  // that its position's last answer has been used. One that asks again may, in spite of everything,
  // be that of a position that has no answer yet.
  uint32_t take(std::span<Taken> out);
  // Whether take() would find something.
  bool has_work() const;
  void answer(const Taken& to, const device::Answer& answer);
  // Kernels that wait, or will, give up soon.
  void close();

  MutableBytes image() const;
  // Requests whose end no kernel has seen, by a copy of the GPU's part in the image.
  uint32_t outstanding() const;

  const KernelGeometry& geometry() const { return geometry_; }
  // For kernels: `gpu_part` is the address of device_bytes() of GPU memory, [memory, memory +
  // bytes) that of the region, as kernels see them.
  device::Ring view(std::byte* gpu_part, std::byte* memory, uint64_t bytes) const;

 private:
  uint64_t next_again() const;
  void prefetch(uint32_t count) const;
  void prefetch_answer(uint32_t index) const;
  bool take_again(Taken* out);
  bool take_new(Taken* out);

  const MutableBytes memory_;
  const KernelGeometry geometry_;
  const uint32_t log2_;
  device::Header* const header_;
  device::Pair* const descriptors_;
  device::Pair* const answers_;
  uint64_t* const again_;
  uint64_t head_ = 0;        // of new requests
  uint32_t again_head_ = 0;  // of those that ask again
};

}  // namespace penstock::ring
