// Which slot an extent goes to, and which extent has to leave for it. Owned by the thread that
// holds the segment's mutex.
#pragma once

#include "limits.h"

#include <array>
#include <vector>

#include "penstock/arena/extent.h"

namespace penstock::arena {

inline constexpr uint32_t kNoSlot = UINT32_MAX;

// A clock: a hand goes round the slots, takes one from the frequency of a slot that was hit, and
// stops at a slot that was not. Extents that are known to follow one another get neighbouring
// slots.
class SlotPool {
 public:
  enum class State : uint8_t { free, filling, used };

  void add(uint32_t count);
  uint32_t size() const { return static_cast<uint32_t>(slots_.size()); }
  uint32_t free_count() const { return free_; }
  State state(uint32_t slot) const { return slots_[slot].state; }

  // A slot for an extent that `following` others of its file are expected to follow. It is free,
  // or, if `may_evict`, in use. kNoSlot when there is none. The slot is filling from now on.
  uint32_t take(Extent extent, uint32_t following, bool may_evict);
  void fill(uint32_t slot);  // filling -> used
  void give_back(uint32_t slot);
  void touch(uint32_t slot);
  // An extent that was expected is there already: its run goes on with the one behind it.
  void pass(Extent extent);

 private:
  struct Slot {
    State state = State::free;
    uint8_t frequency = 0;
  };
  // Slots kept for the next extents of one file.
  struct Run {
    Extent next;
    uint32_t slot = 0;
    uint32_t count = 0;
  };

  bool is_cold(uint32_t slot, bool may_evict) const {
    const Slot& s = slots_[slot];
    return s.state == State::free || (may_evict && s.state == State::used && s.frequency == 0);
  }
  uint32_t take_from_run(Extent extent, bool may_evict);
  uint32_t next_free();
  uint32_t sweep();
  uint32_t claim(uint32_t slot);

  std::vector<Slot> slots_;
  uint32_t free_ = 0;
  uint32_t free_hint_ = 0;
  uint32_t hand_ = 0;
  std::array<Run, limits::kRunsMax> runs_;
  uint32_t oldest_run_ = 0;
};

}  // namespace penstock::arena
