// Objects of one type in one reserved range of memory: taken and given back in O(1), most recently
// used first, constructed once. Pages that were never needed cost nothing.
#pragma once

#include <new>
#include <sys/mman.h>
#include <utility>

#include "penstock/base.h"

namespace penstock::store {

// Anonymous memory, aligned to pages, zero until written. Empty if the system refuses.
class MappedMemory {
 public:
  explicit MappedMemory(size_t bytes) : bytes_(bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    memory_ = static_cast<std::byte*>(memory);
    // Look-ups go to random addresses: with small pages, each would walk the page tables as well.
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
  }
  ~MappedMemory() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::byte* data() const { return memory_; }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  size_t bytes_;
  std::byte* memory_ = nullptr;
};

// T has a member `T* pool_next` that is the pool's while the object is not taken. Objects are not
// destroyed, only their memory goes with the pool: T owns nothing that outlives that.
template <class T>
class Pool {
 public:
  explicit Pool(uint32_t capacity) : memory_(capacity * sizeof(T)), capacity_(capacity) {}

  bool valid() const { return static_cast<bool>(memory_); }
  // Null when all are taken.
  T* take() {
    T* object = free_;
    if (object != nullptr) {
      free_ = object->pool_next;
    } else if (made_ < capacity_) {
      object = new (memory_.data() + size_t{made_++} * sizeof(T)) T();
    } else {
      return nullptr;
    }
    ASSERT(taken_ < made_);
    ++taken_;
    return object;
  }
  void give(T& object) {
    ASSERT(taken_ > 0);
    DASSERT(&object != free_ && is_mine(object));
    --taken_;
    object.pool_next = std::exchange(free_, &object);
  }
  uint32_t taken() const { return taken_; }
  uint32_t made() const { return made_; }
  // The objects made so far, taken or not, below made().
  T& at(uint32_t index) {
    DASSERT(index < made_);
    return *std::launder(reinterpret_cast<T*>(memory_.data() + size_t{index} * sizeof(T)));
  }

 private:
  bool is_mine(const T& object) const {
    const auto* const at = reinterpret_cast<const std::byte*>(&object);
    return at >= memory_.data() && at < memory_.data() + size_t{made_} * sizeof(T);
  }

  MappedMemory memory_;
  uint32_t capacity_;
  uint32_t made_ = 0;
  uint32_t taken_ = 0;
  T* free_ = nullptr;
};

}  // namespace penstock::store
