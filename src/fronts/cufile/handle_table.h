// Objects that programs name by opaque handles, which may be anything when they come back.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/base.h"

namespace penstock::cufile {

// A handle is a slot of the table and a number that counts the slot's objects: one that was removed
// is never found again, also when its slot has another object. Thread safe; find() takes no lock.
// An object that is removed while it is used goes when its last user does.
template <class T>
class HandleTable {
 public:
  explicit HandleTable(uint32_t count_max) : slots_(count_max) {
    // No two tables begin with the same numbers, so that handles of a table that is gone are not
    // found in the next.
    static std::atomic<uint64_t> tables{0};
    const uint64_t first = tables.fetch_add(1, std::memory_order_relaxed) << 16;
    for (Slot& slot : slots_) slot.word.store((first & UINT32_MAX) * kLife);
  }
  ~HandleTable() { clear(); }

  // Holds an object; movable.
  class Use {
   public:
    Use() = default;
    Use(HandleTable& table, uint32_t index) : table_(&table), index_(index) {}
    Use(Use&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), index_(other.index_) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(index_, other.index_);
      return *this;
    }
    ~Use() {
      if (table_ != nullptr) table_->drop(index_);
    }
    explicit operator bool() const { return table_ != nullptr; }
    T* operator->() const { return table_->slots_[index_].object; }
    T& operator*() const { return *operator->(); }

   private:
    HandleTable* table_ = nullptr;
    uint32_t index_ = 0;
  };

  // Null when the table is full.
  void* add(std::unique_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    uint32_t index = used_;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else if (used_ < slots_.size()) {
      ++used_;
    } else {
      return nullptr;
    }
    Slot& slot = slots_[index];
    slot.object = object.release();
    const uint64_t life = slot.word.load(std::memory_order_relaxed) / kLife + 1;
    // Release pairs with the acquire in find().
    slot.word.store(life * kLife + 1, std::memory_order_release);
    return reinterpret_cast<void*>(life << 32 | index);
  }

  // False when the handle is none.
  Use find(void* handle) {
    Slot* const slot = slot_of(handle);
    if (slot == nullptr) return {};
    uint64_t word = slot->word.load(std::memory_order_relaxed);
    do {
      if (!is_alive(word, handle)) return {};
    } while (!slot->word.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                               std::memory_order_relaxed));
    return {*this, index_of(handle)};
  }

  // False when the handle is none.
  bool remove(void* handle) {
    Slot* const slot = slot_of(handle);
    if (slot == nullptr) return false;
    uint64_t word = slot->word.load(std::memory_order_relaxed);
    do {
      if (!is_alive(word, handle)) return false;
    } while (!slot->word.compare_exchange_weak(word, word | kRemoved, std::memory_order_relaxed));
    drop(index_of(handle));
    return true;
  }

  // Calls `visit` with every object.
  template <class Visit>
  void for_each(Visit visit) {
    uint32_t used = 0;
    {
      const std::lock_guard lock(mutex_);
      used = used_;
    }
    for (uint32_t i = 0; i < used; ++i) {
      const uint64_t life = slots_[i].word.load(std::memory_order_relaxed) / kLife;
      void* const handle = reinterpret_cast<void*>(life << 32 | i);
      if (const Use use = find(handle)) visit(*use, handle);
    }
  }

  void clear() {
    for_each([this](T&, void* handle) { remove(handle); });
  }

 private:
  // The life, whether it was removed, and the number of users: one for being in the table.
  static constexpr uint64_t kLife = uint64_t{1} << 32;
  static constexpr uint64_t kRemoved = uint64_t{1} << 31;
  static constexpr uint64_t kUsers = kRemoved - 1;

  struct Slot {
    std::atomic<uint64_t> word{0};
    T* object = nullptr;
  };

  static uint32_t index_of(void* handle) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle));
  }
  static bool is_alive(uint64_t word, void* handle) {
    return word / kLife == reinterpret_cast<uintptr_t>(handle) >> 32 && (word & kRemoved) == 0 &&
           (word & kUsers) != 0;
  }
  Slot* slot_of(void* handle) {
    return index_of(handle) < slots_.size() ? &slots_[index_of(handle)] : nullptr;
  }

  void drop(uint32_t index) {
    Slot& slot = slots_[index];
    // Release orders what this user did before the end; acquire, what the others did.
    const uint64_t before = slot.word.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & kUsers) > 1) return;
    delete std::exchange(slot.object, nullptr);
    const std::lock_guard lock(mutex_);
    free_.push_back(index);
  }

  std::vector<Slot> slots_;
  std::mutex mutex_;
  uint32_t used_ = 0;
  std::vector<uint32_t> free_;
};

}  // namespace penstock::cufile
