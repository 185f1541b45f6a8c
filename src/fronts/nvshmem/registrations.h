// Which local buffers the program has registered.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace penstock::nvshmem {

// No two overlap. Thread safe.
class Registrations {
 public:
  // False, and nothing is changed: it has no bytes, ends beyond all addresses, or overlaps another.
  bool add(const void* address, uint64_t bytes);
  // The length of the one that begins there; none does: no value.
  std::optional<uint64_t> remove(const void* address);
  void clear();

 private:
  std::mutex mutex_;
  std::map<uintptr_t, uint64_t> bytes_;  // by address
};

}  // namespace penstock::nvshmem
