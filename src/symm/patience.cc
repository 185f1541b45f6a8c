#include "penstock/symm/patience.h"

#include <sched.h>

namespace penstock::symm {
namespace {

// Asking costs more than looking: a load that misses, a call.
constexpr uint32_t kTurnsPerQuestion = 16;

}  // namespace

Status Patience::let_others_run() {
  ::sched_yield();
  if (turns_ % kTurnsPerQuestion != 0) return {};
  TRY(settings_.company->is_there());
  if (deadline_ != engine::kNever && settings_.clock->now() >= deadline_) return Code::timed_out;
  return {};
}

}  // namespace penstock::symm
