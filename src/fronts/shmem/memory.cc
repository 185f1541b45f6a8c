// The symmetric heap, and which addresses are symmetric.
//
// What is handed out depends on the calls alone, so PEs need not ask one another. They meet
// afterwards because OpenSHMEM says so: what another PE puts there must not be overwritten by zeros
// that come later, nor hit what was not yet given back.
#include "checking.h"
#include "contexts.h"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fmt/core.h>

namespace penstock::shmem {
namespace {

// Fit for all types, as malloc()'s is.
constexpr uint64_t kAlignment = alignof(std::max_align_t);

void meet(const char* call) {
  symm::Group& all = group(call);
  if (const Status met = all.barrier(all.world()); !met.ok()) fault_status(call, met);
}

void say(const char* call, const std::string& what) {
  std::fprintf(stderr, "penstock: PE %u: %s: %s\n", group(call).me(), call, what.c_str());
}

void say_full(const char* call, uint64_t bytes, const symm::Heap& heap) {
  say(call,
      fmt::format(
          "no room for {} bytes: {} of {} are in use, and {} at most in one piece are free; set "
          "SHMEM_SYMMETRIC_SIZE to have more",
          bytes, heap.used_bytes(), heap.end() - heap.begin(), heap.largest_free()));
}

// Null, with a message, when there is no room. The heap's lock is held.
std::byte* take(const char* call, symm::Group& all, uint64_t bytes, uint64_t alignment) {
  const auto offset = all.heap().allocate(bytes, alignment);
  if (!offset) {
    say_full(call, bytes, all.heap());
    return nullptr;
  }
  return all.heap_address(*offset);
}

void* allocate(const char* call, uint64_t bytes, uint64_t alignment, bool is_zeroed) {
  symm::Group& all = group(call);
  if (bytes == 0) return nullptr;
  check_alike(call, all, all.world(), bytes);
  std::byte* found = nullptr;
  {
    const std::lock_guard lock(process().heap_mutex);
    found = take(call, all, bytes, alignment);
  }
  if (found == nullptr) return nullptr;
  if (is_zeroed) std::memset(found, 0, bytes);
  meet(call);
  return found;
}

uint64_t size_at(const char* call, const void* address) {
  symm::Group& all = group(call);
  const auto bytes = all.heap().size_of(all.heap_offset(address));
  if (!bytes)
    fault(call, fmt::format("address {}: nothing that shmem_malloc() gave begins there", address));
  return *bytes;
}

void release(const char* call, void* address) {
  symm::Group& all = group(call);
  if (address == nullptr) return;
  uint64_t bytes = 0;
  {
    const std::lock_guard lock(process().heap_mutex);
    bytes = size_at(call, address);
  }
  check_alike(call, all, all.world(), bytes);
  meet(call);
  const std::lock_guard lock(process().heap_mutex);
  all.heap().release(all.heap_offset(address));
}

void* reallocate(const char* call, void* address, uint64_t bytes) {
  symm::Group& all = group(call);
  if (address == nullptr) return allocate(call, bytes, kAlignment, false);
  if (bytes == 0) {
    release(call, address);
    return nullptr;
  }
  check_alike(call, all, all.world(), bytes);
  meet(call);
  std::byte* found = nullptr;
  {
    const std::lock_guard lock(process().heap_mutex);
    const uint64_t before = size_at(call, address);
    if (all.heap().resize(all.heap_offset(address), bytes)) {
      found = static_cast<std::byte*>(address);
    } else {
      found = take(call, all, bytes, kAlignment);
      if (found == nullptr) return nullptr;
      std::memcpy(found, address, std::min(before, bytes));
      all.heap().release(all.heap_offset(address));
    }
  }
  meet(call);
  return found;
}

// Newer specifications leave open what alignments below that of a pointer do, older ones allow
// them.
void* align(const char* call, size_t alignment, size_t size) {
  const symm::Group& all = group(call);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    say(call, fmt::format("alignment {}: not a power of two", alignment));
    return nullptr;
  }
  if (alignment > all.heap_alignment()) {
    say(call,
        fmt::format("alignment {}: at most {} with this heap", alignment, all.heap_alignment()));
    return nullptr;
  }
  return allocate(call, size, alignment, false);
}

void* allocate_many(const char* call, size_t count, size_t size) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(count, size, &bytes)) return allocate(call, bytes, kAlignment, true);
  say(call, fmt::format("{} times {} bytes are more than there are addresses", count, size));
  return nullptr;
}

// Null: not within reach. This PE's own instance has the address by which the program knows it:
// that of a variable is seen from here at a second one, too.
void* reached(const char* call, const void* symmetric, uint32_t pe) {
  const symm::Group& all = group(call);
  std::byte* const there = all.at(symmetric, 1, pe);
  return there != nullptr && pe == all.me() ? const_cast<void*>(symmetric) : there;
}

}  // namespace
}  // namespace penstock::shmem

namespace shmem = penstock::shmem;

SHMEM_DEFINE void* pshmem_malloc(size_t size) {
  return shmem::allocate("shmem_malloc", size, shmem::kAlignment, false);
}
SHMEM_ALIAS(shmem_malloc);

// All of the heap is fit for atomic operations and signals.
SHMEM_DEFINE void* pshmem_malloc_with_hints(size_t size, long /*hints*/) {
  return shmem::allocate("shmem_malloc_with_hints", size, shmem::kAlignment, false);
}
SHMEM_ALIAS(shmem_malloc_with_hints);

SHMEM_DEFINE void* pshmem_calloc(size_t count, size_t size) {
  return shmem::allocate_many("shmem_calloc", count, size);
}
SHMEM_ALIAS(shmem_calloc);

SHMEM_DEFINE void* pshmem_align(size_t alignment, size_t size) {
  return shmem::align("shmem_align", alignment, size);
}
SHMEM_ALIAS(shmem_align);

SHMEM_DEFINE void* pshmem_realloc(void* ptr, size_t size) {
  return shmem::reallocate("shmem_realloc", ptr, size);
}
SHMEM_ALIAS(shmem_realloc);

SHMEM_DEFINE void pshmem_free(void* ptr) {
  shmem::release("shmem_free", ptr);
}
SHMEM_ALIAS(shmem_free);

SHMEM_DEFINE void* pshmalloc(size_t size) {
  return shmem::allocate("shmalloc", size, shmem::kAlignment, false);
}
SHMEM_ALIAS(shmalloc);

SHMEM_DEFINE void* pshmemalign(size_t alignment, size_t size) {
  return shmem::align("shmemalign", alignment, size);
}
SHMEM_ALIAS(shmemalign);

SHMEM_DEFINE void* pshrealloc(void* ptr, size_t size) {
  return shmem::reallocate("shrealloc", ptr, size);
}
SHMEM_ALIAS(shrealloc);

SHMEM_DEFINE void pshfree(void* ptr) {
  shmem::release("shfree", ptr);
}
SHMEM_ALIAS(shfree);

SHMEM_DEFINE int pshmem_pe_accessible(int pe) {
  return static_cast<uint32_t>(pe) < shmem::group("shmem_pe_accessible").size() ? 1 : 0;
}
SHMEM_ALIAS(shmem_pe_accessible);

SHMEM_DEFINE int pshmem_addr_accessible(const void* addr, int pe) {
  const auto& group = shmem::group("shmem_addr_accessible");
  return group.fault_of(addr, 1, static_cast<uint32_t>(pe)) == penstock::symm::Fault::none ? 1 : 0;
}
SHMEM_ALIAS(shmem_addr_accessible);

SHMEM_DEFINE void* pshmem_ptr(const void* dest, int pe) {
  return shmem::reached("shmem_ptr", dest, static_cast<uint32_t>(pe));
}
SHMEM_ALIAS(shmem_ptr);

SHMEM_DEFINE void* pshmem_team_ptr(shmem_team_t team, const void* dest, int pe) {
  const auto* const found = shmem::team_of("shmem_team_ptr", team);
  if (found == nullptr || static_cast<uint32_t>(pe) >= found->size()) return nullptr;
  return shmem::reached("shmem_team_ptr", dest, found->set().pe(static_cast<uint32_t>(pe)));
}
SHMEM_ALIAS(shmem_team_ptr);
