// What an application tells the agent of its hits, so that the agent keeps what is in use.
#pragma once

#include "penstock/arena/layout.h"
#include "penstock/base.h"

namespace penstock::arena {

// The application's side. Several threads may write at once and then overwrite each other's words:
// a touch more or less does not matter. Zeroed memory of sizeof(TouchLogMemory), aligned to it.
class TouchLog {
 public:
  TouchLog() = default;
  explicit TouchLog(MutableBytes memory);

  void touch(uint32_t slot, uint32_t hits = 1);

 private:
  TouchLogMemory* memory_ = nullptr;
};

// The agent's side. Everything in the memory is foreign input: a number of hits that the
// application claims, and numbers of slots that may be none.
class TouchLogView {
 public:
  explicit TouchLogView(Bytes memory);

  // Calls `touched` with what was written since the last time, kTouchesMax slots at most; returns
  // the hits claimed since then.
  template <class Touched>
  uint64_t drain(const Touched& touched) {
    const uint64_t head = this->head();
    const uint64_t count = head - seen_ < kTouchesMax ? head - seen_ : kTouchesMax;
    for (uint64_t i = head - count; i != head; ++i) touched(slot(i));
    seen_ = head;
    return new_hits();
  }

 private:
  uint64_t head() const;
  uint32_t slot(uint64_t touch) const;
  uint64_t new_hits();

  const TouchLogMemory* memory_;
  uint64_t seen_ = 0;
  uint64_t hits_ = 0;
};

}  // namespace penstock::arena
