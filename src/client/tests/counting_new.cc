#include "counting_new.h"

#include <cstdlib>
#include <new>

namespace {
uint64_t count = 0;
}

namespace penstock::client {
uint64_t allocations() {
  return count;
}
}  // namespace penstock::client

void* operator new(size_t size) {
  ++count;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void* operator new(size_t size, std::align_val_t alignment) {
  ++count;
  const auto unit = static_cast<size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
