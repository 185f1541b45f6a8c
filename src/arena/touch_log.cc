#include "penstock/arena/touch_log.h"

#include "penstock/arena/order.h"

namespace penstock::arena {

TouchLog::TouchLog(MutableBytes memory)
    : memory_(reinterpret_cast<TouchLogMemory*>(memory.data())) {
  ASSERT(memory.size() >= sizeof(TouchLogMemory) &&
         is_aligned(memory.data(), alignof(TouchLogMemory)));
}

// Loads and stores instead of atomic additions: those would cost each hit more than its look-up.
void TouchLog::touch(uint32_t slot, uint32_t hits) {
  LongWord count(memory_->hits);
  count.store(count.load(std::memory_order_relaxed) + hits, std::memory_order_relaxed);
  LongWord head(memory_->head);
  const uint64_t at = head.load(std::memory_order_relaxed);
  Word(memory_->slot[at % kTouchesMax]).store(slot, std::memory_order_relaxed);
  // Release pairs with the acquire in TouchLogView::head().
  head.store(at + 1, std::memory_order_release);
}

TouchLogView::TouchLogView(Bytes memory)
    : memory_(reinterpret_cast<const TouchLogMemory*>(memory.data())) {
  ASSERT(memory.size() >= sizeof(TouchLogMemory) &&
         is_aligned(memory.data(), alignof(TouchLogMemory)));
}

uint64_t TouchLogView::head() const {
  return load_word(memory_->head, std::memory_order_acquire);
}

uint32_t TouchLogView::slot(uint64_t touch) const {
  return load_word(memory_->slot[touch % kTouchesMax], std::memory_order_relaxed);
}

uint64_t TouchLogView::new_hits() {
  const uint64_t hits = load_word(memory_->hits, std::memory_order_relaxed);
  const uint64_t fresh = hits - hits_;
  hits_ = hits;
  // A count that went back, or leapt further than a processor could, is none.
  return fresh <= UINT32_MAX ? fresh : 0;
}

}  // namespace penstock::arena
