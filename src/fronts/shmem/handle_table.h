// Handles that programs hold, and what they stand for. A handle that was given back, or never was
// one, is found out.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "penstock/base.h"

namespace penstock::shmem {

// A handle is {how often its place was used, place + kFirst}: 0 to kFirst - 1 are the caller's own.
// find() takes no lock; who gives a handle back while another thread uses it gets what it asked
// for.
template <class T, uint32_t kMax>
class HandleTable {
 public:
  static constexpr uint32_t kFirst = 16;

  // None: all are in use.
  std::optional<uint64_t> add(T value) {
    const std::lock_guard lock(mutex_);
    uint32_t place = used_;
    if (!free_.empty()) {
      place = free_.back();
      free_.pop_back();
    } else if (used_ < kMax) {
      places_[place].store(new Place, std::memory_order_release);
      ++used_;
    } else {
      return std::nullopt;
    }
    Place& found = *places_[place].load(std::memory_order_relaxed);
    found.value = std::move(value);
    const uint32_t generation = found.generation.load(std::memory_order_relaxed) + 1;
    ASSERT(is_used(generation));
    found.generation.store(generation, std::memory_order_release);
    return uint64_t{generation} << 32 | (place + kFirst);
  }

  // Null: no such handle.
  T* find(uint64_t handle) {
    const uint64_t place = (handle & 0xffff'ffff) - kFirst;
    if (place >= kMax) return nullptr;
    Place* const found = places_[place].load(std::memory_order_acquire);
    if (found == nullptr || !is_used(handle >> 32)) return nullptr;
    return found->generation.load(std::memory_order_acquire) == handle >> 32 ? &found->value
                                                                             : nullptr;
  }

  bool remove(uint64_t handle) {
    const std::lock_guard lock(mutex_);
    if (find(handle) == nullptr) return false;
    const auto place = static_cast<uint32_t>(handle & 0xffff'ffff) - kFirst;
    places_[place]
        .load(std::memory_order_relaxed)
        ->generation.fetch_add(1, std::memory_order_release);
    free_.push_back(place);
    return true;
  }

  // Gives back all for which `is_wanted(value)`.
  template <class Wanted>
  void remove_if(Wanted is_wanted) {
    const std::lock_guard lock(mutex_);
    for (uint32_t place = 0; place < used_; ++place) {
      Place& found = *places_[place].load(std::memory_order_relaxed);
      if (!is_used(found.generation.load(std::memory_order_relaxed)) || !is_wanted(found.value))
        continue;
      found.generation.fetch_add(1, std::memory_order_release);
      free_.push_back(place);
    }
  }

 private:
  struct Place {
    std::atomic<uint32_t> generation{0};  // odd: in use
    T value;
  };
  static bool is_used(uint64_t generation) { return generation % 2 == 1; }

  std::mutex mutex_;
  uint32_t used_ = 0;  // places that were ever used; they stay
  std::vector<uint32_t> free_;
  std::array<std::atomic<Place*>, kMax> places_{};
};

}  // namespace penstock::shmem
