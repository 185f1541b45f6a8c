#include "penstock/testing/mapped_memory.h"

#include <sys/mman.h>

namespace penstock::test {

MappedMemory::MappedMemory(uint64_t size) {
  void* const mapped =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT(mapped != MAP_FAILED);
  bytes_ = {static_cast<std::byte*>(mapped), size};
}

MappedMemory::~MappedMemory() {
  ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace penstock::test
