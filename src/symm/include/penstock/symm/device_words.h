// Single words of PEs' GPU memory, by the host.
#pragma once

#include <atomic>

#include "penstock/symm/device_heap.h"

namespace penstock::symm {

// How a word changes at once.
enum class ChangeBy : uint8_t { swap, compare_swap, add, bit_and, bit_or, bit_xor };

struct ChangeOfWord {
  ChangeBy by;
  uint32_t bytes;     // 4 or 8; the word is aligned to it
  uint64_t value;     // bits of the operand
  uint64_t expected;  // of compare_swap
};

// Of one heap, and beside its DeviceStreams, which outlives it. Thread safe. All on the device's
// own stream, in the order of the calls: it waits for none of the program's. What only copies needs
// no processor of the GPU; a change is a kernel of one thread, and waits where kernels of the
// program hold them all.
class DeviceWords {
 public:
  static Outcome<std::unique_ptr<DeviceWords>> make(DeviceHeap& heap);

  // Up to 16 bytes; there when it returns.
  Status put(void* dest, const void* value, uint32_t bytes, uint32_t pe);
  Status get(void* value, const void* source, uint32_t bytes, uint32_t pe);
  // Behind what the stream has to do already; waits for it. not_supported: the stream is being
  // captured, and has no value yet.
  Status get(void* value, const void* source, uint32_t bytes, uint32_t pe,
             engine::DeviceStream stream);

  // Done when the own stream is, of PEs of other nodes after DeviceStreams::quiet(); and what was
  // there before, which is waited for.
  Status change(void* dest, const ChangeOfWord& change, uint32_t pe);
  Result<uint64_t> fetch(void* dest, const ChangeOfWord& change, uint32_t pe);

 private:
  // A place in pinned memory that one call has to itself.
  struct alignas(64) Place {
    std::byte value[16];  // or what was there before
    uint64_t done;
    uint64_t number;  // of the last call here that waited for `done`
  };
  static_assert(sizeof(Place) == 64);
  static constexpr uint32_t kPlaces = 64;

  Status put_far(void* dest, const void* value, uint32_t bytes, uint32_t pe);
  // Takes a place, waiting for one where as many threads are at it, and gives it back.
  class Claim {
   public:
    explicit Claim(DeviceWords& words);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    Place& place() const { return words_.places_[index_]; }
    // For what failed half way: the GPU may still write there.
    void keep() { is_kept_ = true; }

   private:
    DeviceWords& words_;
    uint32_t index_ = 0;
    bool is_kept_ = false;
  };

  DeviceWords(DeviceHeap& heap, Place* places) : heap_(heap), places_(places) {}
  Status launch_change(void* dest, const ChangeOfWord& change, uint32_t pe, Place* answer);
  Status finish(Place& place, engine::DeviceStream stream);
  Status wait_for(const Place& place, engine::DeviceStream stream);

  DeviceHeap& heap_;
  Place* const places_;  // kPlaces, of the host; stay as long as the process
  std::atomic<uint64_t> taken_{0};
};

}  // namespace penstock::symm
