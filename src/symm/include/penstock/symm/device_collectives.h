// What all PEs of a team do together with their GPUs' memory on streams: one kernel on each PE.
#pragma once

#include "penstock_device/symm/grid_work.h"

#include <array>
#include <span>

#include "penstock/symm/device_heap.h"

namespace penstock::symm {

enum class Combine : uint8_t { sum, prod, min, max, bit_and, bit_or, bit_xor };
enum class Element : uint8_t { s8, s16, s32, s64, u8, u16, u32, u64, f16, bf16, f32, f64 };
constexpr uint32_t kCombines = 7;
constexpr uint32_t kElements = 12;

constexpr uint64_t bytes_of(Element element) {
  constexpr std::array<uint8_t, kElements> kBytes = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return kBytes[static_cast<size_t>(element)];
}

// Of one heap, which outlives it. Thread safe; operations of one team are made by one stream of
// each PE at a time, in the same order and with the same sizes everywhere. Calls return once the
// stream has its work, which may be captured. dest and source are symmetric. An operation begins on
// no PE before all have come to it, and ends on each when its own dest is complete and nobody reads
// its source any more. invalid_argument: an address that is not in the heap, or not aligned as its
// elements are; a root that is not in the team; bits of floating-point numbers. What goes wrong
// later (a PE has ended) is told by DeviceStreams::failure(). Blocks wait for those of other PEs,
// up to 32 of 512 threads for an operation, or one where members are far to each other: streams
// that make operations of several teams at once want the same order on all PEs, or GPUs with room
// for all of them.
class DeviceCollectives {
 public:
  using Stream = engine::DeviceStream;

  // Loads the kernels: `kernels_before` of the device's are loaded already.
  static Outcome<std::unique_ptr<DeviceCollectives>> make(DeviceHeap& heap,
                                                          uint32_t kernels_before);

  // The root's source into everybody's dest, its own too; the others' source is not looked at.
  Status broadcast(const Team& team, void* dest, const void* source, uint64_t bytes, uint32_t root,
                   Stream stream);
  // Everybody's source, in the order of the team. source may be this PE's place in dest.
  Status fcollect(const Team& team, void* dest, const void* source, uint64_t bytes, Stream stream);
  // Of everybody's source the part for this PE: `bytes` for each.
  Status alltoall(const Team& team, void* dest, const void* source, uint64_t bytes, Stream stream);

  struct Reduction {
    Combine combine;
    Element element;
  };
  // All elements of all; dest and source may be the same, but not overlap otherwise. All PEs get
  // the same bits.
  Status reduce(const Team& team, Reduction reduction, void* dest, const void* source,
                uint64_t count, Stream stream);
  // `count` elements for each PE; dest may be this PE's part of source.
  Status reducescatter(const Team& team, Reduction reduction, void* dest, const void* source,
                       uint64_t count, Stream stream);

 private:
  explicit DeviceCollectives(DeviceHeap& heap) : heap_(heap) {}

  struct Operation;
  Status check(const Team& team, const Operation& operation) const;
  Status launch(const Team& team, const Operation& operation, Stream stream);
  Status launch_near(const Operation& operation, device::GridWork work, Stream stream);
  Status launch_far(const Team& team, const Operation& operation, const device::GridWork& work,
                    Stream stream);
  Status start_reduction(const Team& team, Reduction reduction, Operation operation, uint64_t count,
                         Stream stream);

  DeviceHeap& heap_;
  uint32_t bytes_kernel_ = 0;
  uint32_t marked_bytes_kernel_ = 0;
  uint32_t far_bytes_kernel_ = 0;  // these two where the heap has far PEs
  uint32_t far_reduce_kernel_ = 0;
  std::array<std::array<uint32_t, kElements>, kCombines> reduce_kernels_{};
};

}  // namespace penstock::symm
