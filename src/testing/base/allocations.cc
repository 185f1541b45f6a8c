// Replaces operator new for the whole program. A file of its own, so that the compiler does not
// look into these functions where they are used.
#include "penstock/testing/allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<uint64_t> of_all{0};  // relaxed: a count
thread_local uint64_t of_this_thread = 0;

// Not inlined: the compiler would pair what it sees of one with the other, and warn.
[[gnu::noinline]] void* allocate(size_t size, size_t alignment) {
  of_all.fetch_add(1, std::memory_order_relaxed);
  ++of_this_thread;
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const memory = alignment <= alignof(std::max_align_t)
                           ? std::malloc(size)
                           : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void release(void* memory) {
  std::free(memory);
}

}  // namespace

uint64_t penstock::test::allocations() {
  return of_all.load(std::memory_order_relaxed);
}
uint64_t penstock::test::allocations_of_this_thread() {
  return of_this_thread;
}

// All other forms come to these.
void* operator new(size_t size) {
  return allocate(size, 1);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  release(memory);
}
