#include <cstddef>
#include <utility>

#include "penstock/base.h"
#include "penstock/telemetry.h"

namespace penstock::telemetry {

void Tracer::start() {
  ASSERT(!is_on_);
  // Slots of operations that are still under way from the time before keep the memory.
  if (slots_ == nullptr) {
    slots_ = std::make_unique<Slot[]>(kUnderWayMax);
    for (size_t i = 0; i < kUnderWayMax; ++i) {
      slots_[i].next = free_;
      free_ = &slots_[i];
    }
  }
  kept_.clear();
  kept_.reserve(kKeptMax);
  begun_ = ended_ = 0;
  every_ = 1;
  ++round_;
  is_on_ = true;
}

Traced Tracer::stop() {
  ASSERT(is_on_);
  is_on_ = false;
  Traced traced{std::exchange(kept_, {}), ended_, every_};
  if (under_way_ == 0) {
    slots_.reset();
    free_ = nullptr;
  }
  return traced;
}

OperationTrace* Tracer::begin() {
  if (!is_on_ || begun_++ % every_ != 0 || free_ == nullptr) return nullptr;
  Slot& slot = *std::exchange(free_, free_->next);
  slot = {.trace = {}, .next = nullptr, .round = round_};
  ++under_way_;
  return &slot.trace;
}

void Tracer::end(OperationTrace& operation) {
  static_assert(offsetof(Slot, trace) == 0);
  Slot& slot = reinterpret_cast<Slot&>(operation);
  ASSERT(under_way_ > 0);
  --under_way_;
  if (is_on_ && slot.round == round_) {
    if (kept_.size() == kKeptMax) {
      for (size_t i = 0; i < kKeptMax / 2; ++i) kept_[i] = kept_[2 * i];
      kept_.resize(kKeptMax / 2);
      every_ *= 2;
    }
    kept_.push_back(operation);
    ended_ = begun_;
  }
  slot.next = free_;
  free_ = &slot;
}

}  // namespace penstock::telemetry
