// Slots: pinned host memory in pieces of two sizes.
#pragma once

#include "limits.h"

#include <algorithm>
#include <vector>

#include "penstock/route/mover.h"

namespace penstock::route {

class Mover::Slots {
 public:
  Slots(MutableBytes memory, engine::BufferId buffer) : memory_(memory), buffer_(buffer) {
    const uint64_t small_step = limits::kSmallSlotBytes + limits::kSlotChecksumBytes;
    const uint64_t large_step = limits::kSlotBytes + limits::kSlotChecksumBytes;
    const uint64_t small_bytes = memory.size() / limits::kSmallShare;
    uint64_t at = 0;
    for (; at + small_step <= small_bytes; at += small_step) small_.push_back(at);
    large_from_ = at;
    for (; at + large_step <= memory.size(); at += large_step) large_.push_back(at);
    ASSERT(!large_.empty());
    small_count_ = small_.size();
    large_count_ = large_.size();
  }

  // Of at least `bytes`, at most kSlotBytes; its length is what it holds, and behind that is room
  // for the checksums of all its blocks. Null when none is free.
  engine::MemoryRef take(uint64_t bytes) {
    ASSERT(bytes <= limits::kSlotBytes);
    if (bytes <= limits::kSmallSlotBytes && !small_.empty()) {
      return take(small_, limits::kSmallSlotBytes);
    }
    return large_.empty() ? engine::MemoryRef{} : take(large_, limits::kSlotBytes);
  }

  void give_back(const engine::MemoryRef& slot) {
    const auto at = static_cast<uint64_t>(slot.data - memory_.data());
    ASSERT(at < memory_.size());
    const bool is_small = at < large_from_;
    std::vector<uint64_t>& free = is_small ? small_ : large_;
    // It was taken: two pieces in one slot would write over each other's bytes.
    ASSERT(free.size() < (is_small ? small_count_ : large_count_));
    DASSERT(std::find(free.begin(), free.end(), at) == free.end());
    free.push_back(at);
  }

 private:
  engine::MemoryRef take(std::vector<uint64_t>& from, uint64_t length) {
    const uint64_t at = from.back();
    from.pop_back();
    // It is as long as the caller is told: pairs with give_back().
    ASSERT((at < large_from_) == (length == limits::kSmallSlotBytes));
    return {memory_.data() + at, length, buffer_};
  }

  MutableBytes memory_;
  engine::BufferId buffer_;
  uint64_t large_from_ = 0;
  size_t small_count_ = 0;
  size_t large_count_ = 0;
  // Offsets of free ones, the last used on top: it is the one that caches may still hold.
  std::vector<uint64_t> small_;
  std::vector<uint64_t> large_;
};

}  // namespace penstock::route
