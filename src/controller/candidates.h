// What plans and choices of targets share.
#pragma once

#include "penstock/controller/state.h"

namespace penstock::controller {

// Whether new copies may be put there.
bool can_take_copies(const State& state, const Target& target, MediaClass media);

}  // namespace penstock::controller
