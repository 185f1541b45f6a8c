// What scenarios on GPUs have in common.
#pragma once

#include "pes.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace penstock::symm::test {

// PEs are dealt out over so many, unless they say which they want.
constexpr uint32_t kSimulatedGpus = 2;
constexpr uint32_t kSimulatedGpusMost = 3;
constexpr uint64_t kDeviceHeapBytes = uint64_t{64} << 20;

inline uint32_t gpu_count(const Pe& pe) {
  if (pe.gpus != nullptr) return kSimulatedGpus;
  auto memory = gpu::devices();
  CHECK(memory);
  return static_cast<uint32_t>((*memory)->devices().size());
}

// PEs are dealt out over the GPUs.
inline std::unique_ptr<gpu::SymmetricDevice> open_device(const Pe& pe) {
  auto device = gpu::open_symmetric_device(engine::DeviceId(pe.me() % gpu_count(pe)));
  CHECK(device);
  return std::move(*device);
}

inline std::unique_ptr<DeviceHeap> make_heap(Group& group, gpu::SymmetricDevice& device,
                                             uint64_t bytes = kDeviceHeapBytes) {
  auto heap = DeviceHeap::make(group, device, {.bytes = bytes});
  if (!heap) {
    std::fprintf(stderr, "PE %u: %s\n", group.me(), heap.error().message.c_str());
    std::_Exit(1);
  }
  return std::move(*heap);
}

inline std::unique_ptr<DeviceStreams> make_streams(DeviceHeap& heap) {
  auto streams = DeviceStreams::make(heap);
  CHECK(streams);
  return std::move(*streams);
}

template <class T>
T* allocate(DeviceHeap& heap, uint64_t count) {
  const auto place = heap.allocate(count * sizeof(T), alignof(T));
  CHECK(place);
  return reinterpret_cast<T*>(heap.address(*place));
}

// This PE's GPU and the heap in it.
struct OnDevice {
  std::unique_ptr<gpu::SymmetricDevice> device;
  std::unique_ptr<DeviceHeap> heap;

  template <class T>
  T* allocate(uint64_t count) const {
    return test::allocate<T>(*heap, count);
  }
};

inline OnDevice begin(const Pe& pe) {
  OnDevice on;
  on.device = open_device(pe);
  on.heap = make_heap(pe.group, *on.device);
  return on;
}

// ---- GPUs of one node without access to each other, which only simulated ones play ----

// A GPU for each PE.
constexpr uint32_t kPesApart = 3;

// Of whose GPUs this PE's does not reach the memory, bit by bit.
struct Apart {
  uint64_t from[kPesApart];
  bool between(uint32_t one, uint32_t other) const {
    return (from[one] >> other & 1) != 0 || (from[other] >> one & 1) != 0;
  }
};
// All from each other; the last from all others, of which only it finds that out; the first from
// the last, so that 1 is near to two that are far to each other.
constexpr Apart kAllApart = {{0b110, 0b101, 0b011}};
constexpr Apart kLastApart = {{0, 0, 0b011}};
constexpr Apart kEndsApart = {{0b100, 0, 0b001}};

inline OnDevice begin_apart(const Pe& pe, Group& group, const Apart& apart,
                            uint64_t bytes = 8 << 20) {
  CHECK(pe.gpus != nullptr && pe.size() <= kPesApart);
  auto device = gpu::open_symmetric_device(engine::DeviceId(pe.me()));
  CHECK(device);
  pe.gpus->set_faults({.unreachable = apart.from[pe.me()]});
  OnDevice on;
  on.device = std::move(*device);
  on.heap = make_heap(group, *on.device, bytes);
  return on;
}

// ---- what is in memory ----

// Words of a GPU's memory, once the stream has come to it.
inline std::vector<uint64_t> words_at(gpu::SymmetricDevice& device, const uint64_t* at,
                                      uint64_t count) {
  std::vector<uint64_t> seen(count);
  CHECK(device.copy(seen.data(), at, count * sizeof(uint64_t), nullptr).ok());
  CHECK(device.synchronize(nullptr).ok());
  return seen;
}

// All of a group put into each other's memory, by a stream and with barriers there.
inline void use(Group& group, DeviceHeap& heap, DeviceStreams& streams, uint64_t mark) {
  constexpr uint64_t kWords = 1000;
  auto* const dest = allocate<uint64_t>(heap, kWords);
  const uint32_t right = (group.me() + 1) % group.size();
  const uint32_t left = (group.me() + group.size() - 1) % group.size();
  std::vector<uint64_t> words(kWords);
  for (uint64_t i = 0; i < kWords; ++i) words[i] = (mark << 32) + group.me() * kWords + i;
  CHECK(streams.put(dest, words.data(), kWords * sizeof(uint64_t), right, nullptr).ok());
  CHECK(streams.barrier(group.world(), nullptr).ok());
  const auto seen = words_at(heap.device(), dest, kWords);
  for (uint64_t i = 0; i < kWords; ++i) CHECK(seen[i] == (mark << 32) + left * kWords + i);
  // Nobody puts into it again before all have looked.
  CHECK(streams.barrier(group.world(), nullptr).ok());
  CHECK(heap.device().synchronize(nullptr).ok());
  CHECK(streams.failure() == device::kSymmNothing);
  CHECK(heap.release(heap.offset(dest)));
}

}  // namespace penstock::symm::test
