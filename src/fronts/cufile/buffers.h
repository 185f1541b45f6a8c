// Whose memory a pointer is.
#pragma once

#include "backend.h"
#include "cufile.h"

#include <atomic>
#include <map>
#include <shared_mutex>
#include <unordered_map>

namespace penstock::cufile {

// Registered buffers, and what threads have found out about other memory. Thread safe.
class Buffers {
 public:
  static constexpr uint32_t kNoDevice = UINT32_MAX;

  // `limit` bytes of one GPU may be registered together.
  Buffers(engine::DeviceMemory& devices, uint64_t limit);

  struct Change {
    CUfileOpError error = CU_FILE_SUCCESS;
    uint32_t device = kNoDevice;
  };
  Change add(const void* base, uint64_t length);
  Change remove(const void* base);
  void set_limit(uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }

  // [base + offset, + length). A registered buffer bounds it, else the allocation; host memory is
  // the program's affair. What the thread remembers may be wrong when memory is freed and allocated
  // again at the same address: `afresh` asks the driver.
  Result<Memory, CUfileOpError> resolve(const void* base, uint64_t offset, uint64_t length,
                                        bool afresh = false);

 private:
  // Begins at `known`.
  struct Range {
    const std::byte* known = nullptr;
    uint64_t length = 0;
    bool registered = false;
    bool on_device = false;
    engine::DeviceSpan device;

    Memory part(const std::byte* from, uint64_t bytes) const;
  };
  struct Memo;

  using Registered = std::unordered_map<const void*, Range>;

  static Memo& memo();
  void forget();
  void erase(Registered::iterator buffer);  // with the lock held
  Result<Range, CUfileOpError> look_up(const std::byte* from, uint64_t length) const;

  engine::DeviceMemory& devices_;
  std::atomic<uint64_t> limit_;
  std::shared_mutex mutex_;
  Registered buffers_;
  std::map<uint32_t, uint64_t> registered_bytes_;  // by GPU
  // Of what threads remember; unique among all objects of this class. Relaxed: a program that
  // registers memory in one thread orders that before its use in another.
  std::atomic<uint64_t> version_;
};

}  // namespace penstock::cufile
