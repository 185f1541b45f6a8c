// Counts what everything in this program allocates in C++. A file of its own, so that the compiler
// does not look into these functions where they are used.
#include "counting_new.h"

#include <cstddef>
#include <cstdlib>
#include <new>

std::atomic<uint64_t> penstock::allocations{0};

namespace {

void* allocate(size_t size, size_t alignment) {
  penstock::allocations.fetch_add(1, std::memory_order_relaxed);
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(size)
                                                : std::aligned_alloc(alignment, rounded);
}

}  // namespace

// Everything in C++ allocates through these.
void* operator new(size_t size) {
  return allocate(size, 1);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* pointer) noexcept {
  std::free(pointer);
}
void operator delete(void* pointer, size_t) noexcept {
  std::free(pointer);
}
void operator delete(void* pointer, std::align_val_t) noexcept {
  std::free(pointer);
}
void operator delete(void* pointer, size_t, std::align_val_t) noexcept {
  std::free(pointer);
}
