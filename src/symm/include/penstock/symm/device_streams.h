// What the PEs of a group do with their GPUs' memory on streams: behind the work that a program has
// given to a stream, in order with it, and as nodes of a graph where it is captured.
#pragma once

#include <array>

#include "penstock/symm/device_collectives.h"
#include "penstock/symm/device_heap.h"

namespace penstock::symm {

// Elements with a distance on either side, counted in elements: at least 1.
struct StridedElements {
  int64_t dest;
  int64_t source;
  uint64_t count;
  uint32_t element_bytes;  // 1, 2, 4, 8 or 16
};

// How many bytes the elements of one side reach over, where they are some; the most that there is
// where they are more than that, or less than 1 apart.
uint64_t reach_of(int64_t stride, const StridedElements& strides);

// What a copy may need. Kernels move small elements many times faster; copy engines work also while
// kernels of the program hold all of the GPU's processors and wait for what the copy brings.
enum class By : uint8_t { kernels, copy_engines };

// Words of this PE's own heap that a stream waits for: all of them.
struct WordsToWaitFor {
  const void* at;
  uint64_t count;
  uint32_t bytes;  // of each: 2, 4 or 8
  bool is_signed;
  int comparison;      // as kernels have it (penstock_device/symm/wait.h)
  uint64_t value;      // its bits
  const void* values;  // one for each, instead; null: `value` for all
  const int* status;   // not 0: that word is left out; null: none is
};

class Stages;

// Of one heap, which outlives it. Thread safe. Calls return once the stream has its work. What goes
// wrong later (a PE has ended) is told by failure().
class DeviceStreams {
 public:
  using Stream = engine::DeviceStream;

  // Loads the kernels.
  static Outcome<std::unique_ptr<DeviceStreams>> make(DeviceHeap& heap);
  // All streams have done what they were given.
  ~DeviceStreams();

  // Makes barriers of this team cost half, for as long as the heap lives; another team may take
  // over its number. Its kernels need not know the team yet.
  Outcome<void> prepare(const Team& team);

  // All of the team; what each of them has put before, by whatever means, is there for the others
  // behind it. Made by one stream of each PE at a time.
  Status barrier(const Team& team, Stream stream);
  // What kernels have put on other nodes is there for what follows. On this node, as what a kernel
  // or a copy has put is complete when the stream comes to what follows, it does nothing.
  Status quiet(Stream stream);

  // Between any memory of this process and a PE's heap, by a copy engine; pageable memory as CUDA's
  // own copies have it: a source is read at the call, a destination has the bytes when it returns.
  // Where the PE is far, pageable memory, and that of pools, goes through some of the device's
  // (no_memory).
  Status put(void* dest, const void* source, uint64_t bytes, uint32_t pe, Stream stream);
  Status get(void* dest, const void* source, uint64_t bytes, uint32_t pe, Stream stream);
  // invalid_argument also for strides below 1.
  Status iput(void* dest, const void* source, const StridedElements& strides, uint32_t pe,
              Stream stream, By by);
  Status iget(void* dest, const void* source, const StridedElements& strides, uint32_t pe,
              Stream stream, By by);
  // The value is taken at the call. Words of 1, 2, 4 or 8 bytes, aligned to that.
  Status store(void* dest, uint64_t value, uint32_t bytes, uint32_t pe, Stream stream);
  // The signal is there no earlier than what the stream did before.
  Status signal(uint64_t* signal, uint64_t value, SignalOp op, uint32_t pe, Stream stream);
  // Both, few bytes in one kernel.
  Status put_signal(void* dest, const void* source, uint64_t bytes, uint64_t* signal,
                    uint64_t value, SignalOp op, uint32_t pe, Stream stream);
  // `comparison`: as kernels have it (penstock_device/symm/wait.h).
  Status wait(const uint64_t* signal, int comparison, uint64_t value, Stream stream);
  // `values` and `status` are read when the stream comes to it. not_found: kernels do not reach
  // them.
  Status wait(const WordsToWaitFor& words, Stream stream);

  DeviceCollectives& collectives() { return *collectives_; }

  // What a kernel has reported; none: nothing.
  device::SymmFailure failure() const;
  // The same, with the PE and the address that it named when it refused them.
  device::SymmReport report() const;

 private:
  explicit DeviceStreams(DeviceHeap& heap);
  // Of a row: the symmetric side and this PE's own, with their strides.
  struct FarSides {
    const void* there;
    const void* here;
    int64_t stride_there;
    int64_t stride_here;
    bool is_get = false;
  };
  Status put_far(void* dest, const void* source, uint64_t bytes, uint32_t pe, Stream stream);
  Status get_far(void* dest, const void* source, uint64_t bytes, uint32_t pe, Stream stream);
  Status row_far(const FarSides& sides, const StridedElements& strides, uint32_t pe, Stream stream);
  Status ask_for_row(const FarSides& sides, uint64_t count, uint32_t element_bytes, uint32_t pe,
                     Stream stream);
  Status staged_row_far(const FarSides& sides, const StridedElements& strides, uint32_t pe,
                        Stream stream);
  bool goes_by_stage(const void* local) const;
  bool is_reached(const void* local) const;
  Status copy_strided(void* to, const void* from, const StridedElements& strides, Stream stream,
                      bool by_kernels);
  Status launch_elements(void* to, const void* from, const StridedElements& strides, Stream stream);

  DeviceHeap& heap_;
  // By the team's number. Empty: none was prepared.
  std::array<std::unique_ptr<gpu::PreparedLaunch>, device::kSymmTeamsMax> barriers_;
  std::unique_ptr<DeviceCollectives> collectives_;
  const std::unique_ptr<Stages> stages_;
};

}  // namespace penstock::symm
