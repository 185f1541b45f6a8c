// Zeroed memory of whole pages that nothing else lies in.
#pragma once

#include <cstdint>

#include "penstock/base.h"

namespace penstock::test {

// Unmaps itself. The program ends where there is no such memory.
class MappedMemory {
 public:
  explicit MappedMemory(uint64_t size);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  MutableBytes bytes() const { return bytes_; }

 private:
  MutableBytes bytes_;
};

}  // namespace penstock::test
