#include "penstock/symm/patience.h"

#include <sched.h>

namespace penstock::symm {
namespace {

// Asking costs more than looking: a load that misses, a call.
constexpr uint32_t kTurnsPerQuestion = 16;
constexpr uint32_t kLooksPerTurn = 16;
// Some 200 us.
constexpr uint32_t kTurnsAwake = 512;
constexpr uint32_t kMicrosecondsAsleep = 1000;

}  // namespace

Status Patience::let_others_run() {
  ::sched_yield();
  return turns_ % kTurnsPerQuestion == 0 ? ask() : Status();
}

// A turn of theirs is a system call, and so as long as many looks.
Status Patience::pause_for_far() {
  // Where something comes more does.
  idle_turns_ = settings_.far->progress() ? 0 : idle_turns_ + 1;
  if (idle_turns_ <= settings_.looks / kLooksPerTurn) {
    relax();
  } else {
    ::sched_yield();
  }
  if (++turns_ % kTurnsPerQuestion != 0) return {};
  // Nobody on this node may come by a store: what ends the wait wakes.
  if (settings_.is_alone && idle_turns_ > kTurnsAwake) settings_.far->doze(kMicrosecondsAsleep);
  return ask();
}

Status Patience::ask() {
  TRY(settings_.company->is_there());
  if (deadline_ != engine::kNever && settings_.clock->now() >= deadline_) return Code::timed_out;
  return {};
}

}  // namespace penstock::symm
