// Where copies of chains lie. Computed outside the step, which checks what it is given; only the
// replacement of one lost copy is chosen within it.
#pragma once

#include "penstock/controller/step.h"

namespace penstock::controller {

// The best target for one more copy of the chain: on a node, and where the table says so in a rack,
// that has none of its members yet; the one with the fewest chains for its size. None that is up
// and wanted: TargetId().
TargetId choose_target(const State& state, const Chain& chain);

}  // namespace penstock::controller
