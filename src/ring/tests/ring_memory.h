// Page-aligned zeroed memory that stands in for a shared mapping.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>

#include "penstock/ring.h"

namespace penstock::ring {

class TestMemory {
 public:
  explicit TestMemory(Geometry geometry)
      : size_(align_up(geometry.total_bytes(), kHeaderBytes)),
        base_(static_cast<std::byte*>(std::aligned_alloc(kHeaderBytes, size_)), &std::free) {
    std::memset(base_.get(), 0, size_);
    memory = Memory::format(bytes(), geometry);
  }
  MutableBytes bytes() { return {base_.get(), size_}; }

  Memory memory;

 private:
  size_t size_;
  std::unique_ptr<std::byte, void (*)(void*)> base_;
};

inline Submission submission_of(uint64_t user_data) {
  Submission entry{};
  entry.operation = kOperationNop;
  entry.user_data = user_data;
  return entry;
}

inline Completion completion_of(uint64_t user_data) {
  Completion completion{};
  completion.user_data = user_data;
  return completion;
}

}  // namespace penstock::ring
