#include "registrations.h"

namespace penstock::nvshmem {

bool Registrations::add(const void* address, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  if (begin == 0 || bytes == 0 || bytes > UINTPTR_MAX - begin) return false;
  const std::lock_guard lock(mutex_);
  const auto next = bytes_.lower_bound(begin);
  if (next != bytes_.end() && next->first < begin + bytes) return false;
  if (next != bytes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second > begin) return false;
  }
  bytes_.emplace_hint(next, begin, bytes);
  return true;
}

std::optional<uint64_t> Registrations::remove(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = bytes_.find(reinterpret_cast<uintptr_t>(address));
  if (found == bytes_.end()) return std::nullopt;
  const uint64_t bytes = found->second;
  bytes_.erase(found);
  return bytes;
}

void Registrations::clear() {
  const std::lock_guard lock(mutex_);
  bytes_.clear();
}

}  // namespace penstock::nvshmem
