#include "mapped.h"

#include <cerrno>
#include <sys/mman.h>

namespace penstock::symm {

Addresses::~Addresses() {
  if (begin_ != nullptr) ::munmap(begin_, bytes_);
}

Status Addresses::reserve(uint64_t bytes) {
  ASSERT(begin_ == nullptr && bytes > 0);
  void* const begin =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return Status::from_errno(errno);
  begin_ = static_cast<std::byte*>(begin);
  bytes_ = bytes;
  return {};
}

Status Addresses::map(uint64_t offset, uint64_t bytes, int descriptor) {
  ASSERT(range_within(offset, bytes, bytes_));
  void* const placed =
      ::mmap(begin_ + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0);
  return placed == MAP_FAILED ? Status::from_errno(errno) : Status();
}

}  // namespace penstock::symm
