// Making and opening a target.
#pragma once

#include "core.h"

namespace penstock::store {

// Brings a fresh Core to the state that the directory and the database describe, or makes both if
// they are empty. Blocks.
Outcome<bool> open_target(Core& core);

}  // namespace penstock::store
