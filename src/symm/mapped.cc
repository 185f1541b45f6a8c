#include "mapped.h"

#include "limits.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <sys/mman.h>

namespace penstock::symm {

Addresses::~Addresses() {
  if (begin_ != nullptr) ::munmap(begin_, bytes_);
}

Status Addresses::reserve(uint64_t bytes, uint64_t alignment) {
  ASSERT(begin_ == nullptr && bytes > 0 && (alignment & (alignment - 1)) == 0);
  const uint64_t more = bytes + alignment;
  void* const found =
      ::mmap(nullptr, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return Status::from_errno(errno);
  // What is before the first multiple, and what is left behind, goes back.
  auto* const first = static_cast<std::byte*>(found);
  const auto address = reinterpret_cast<uintptr_t>(found);
  const uint64_t before = align_up(address, alignment) - address;
  if (before != 0) ::munmap(first, before);
  ::munmap(first + before + bytes, alignment - before);
  begin_ = first + before;
  bytes_ = bytes;
  return {};
}

// No more than half of a window stays empty for it, and what is aligned to more does not fit in.
uint64_t alignment_of(uint64_t bytes) {
  return std::clamp(std::bit_floor(bytes), limits::kGranule, limits::kAlignmentMax);
}

Status Addresses::map(uint64_t offset, uint64_t bytes, int descriptor) {
  ASSERT(range_within(offset, bytes, bytes_));
  void* const placed =
      ::mmap(begin_ + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0);
  return placed == MAP_FAILED ? Status::from_errno(errno) : Status();
}

}  // namespace penstock::symm
