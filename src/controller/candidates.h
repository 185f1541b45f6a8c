// What plans and choices of targets share.
#pragma once

#include "penstock/controller/state.h"

namespace penstock::controller {

// Whether new copies may be put there.
bool can_take_copies(const State& state, const Target& target, MediaClass media);

// Whether copies of one chain may lie on both; `racks`: nor in one rack.
bool are_apart(const State& state, NodeId a, NodeId b, bool racks);

}  // namespace penstock::controller
