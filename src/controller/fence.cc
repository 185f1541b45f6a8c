// Sessions of agents that may change nothing any more.
#include "stepper.h"

namespace penstock::controller {

// Also of a node that was removed: its processes may not know it yet.
void Stepper::on(const Fence& fence) {
  if (!state_.has(fence.node)) return refuse(Code::not_found, "fence: there is no such node");
  if (fence.lowest == 0 || fence.lowest > limits::kSessionMost) {
    return refuse(Code::invalid_argument, "fence: no session has that number");
  }
  Fenced& fenced = state_.fences[fence.node];
  if (fence.lowest <= fenced.lowest) return;
  fenced.id = fence.node;
  fenced.lowest = fence.lowest;
  actions_.changes.fences.push_back(fence.node);
}

}  // namespace penstock::controller
