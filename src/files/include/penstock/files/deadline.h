// Deadlines of loads and saves.
#pragma once

#include "penstock/engine.h"
#include "penstock/files/limits.h"

namespace penstock::files {

// Until when a load or save may take to end in order.
inline engine::Time with_grace(engine::Time deadline) {
  return deadline < engine::kNever - limits::kGrace ? deadline + limits::kGrace : engine::kNever;
}

}  // namespace penstock::files
