// What the PEs of a group do with their GPUs' memory on streams: behind the work that a program has
// given to a stream, in order with it, and as nodes of a graph where it is captured.
#pragma once

#include <array>

#include "penstock/symm/device_heap.h"

namespace penstock::symm {

// Of one heap, which outlives it. Thread safe. Calls return once the stream has its work. What goes
// wrong later (a PE has ended) is told by failure().
class DeviceStreams {
 public:
  using Stream = engine::DeviceStream;

  // Loads the kernels. not_supported: a build without CUDA.
  static Outcome<std::unique_ptr<DeviceStreams>> make(DeviceHeap& heap);

  // Makes barriers of this team cost half, for as long as the heap lives; another team may take
  // over its number. Its kernels need not know the team yet.
  Outcome<void> prepare(const Team& team);

  // All of the team; what each of them has put before, by whatever means, is there for the others
  // behind it. Made by one stream of each PE at a time.
  Status barrier(const Team& team, Stream stream);
  // A quiet needs nothing: what a kernel or a copy has put on this node is complete when the stream
  // comes to what follows.

  // Between any memory of this process and a PE's heap, by a copy engine.
  Status put(void* dest, const void* source, uint64_t bytes, uint32_t pe, Stream stream);
  Status get(void* dest, const void* source, uint64_t bytes, uint32_t pe, Stream stream);
  // The signal is there no earlier than what the stream did before.
  Status signal(uint64_t* signal, uint64_t value, SignalOp op, uint32_t pe, Stream stream);
  // `comparison`: as kernels have it (penstock_device/symm/wait.h).
  Status wait(const uint64_t* signal, int comparison, uint64_t value, Stream stream);

  // What a kernel has reported; none: nothing.
  device::SymmFailure failure() const;

 private:
  explicit DeviceStreams(DeviceHeap& heap) : heap_(heap) {}

  DeviceHeap& heap_;
  // By the team's number. Empty: none was prepared.
  std::array<std::unique_ptr<gpu::PreparedLaunch>, device::kSymmTeamsMax> barriers_;
};

}  // namespace penstock::symm
