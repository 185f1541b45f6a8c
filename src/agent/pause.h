// For threads that look again and again.
#pragma once

#include "penstock/engine.h"

namespace penstock::agent {

// Nothing ends it early.
inline void pause_for(engine::Duration time) {
  engine::Mutex mutex;
  engine::Condition never;
  std::unique_lock lock(mutex);
  (void)never.wait_for(lock, time, [] { return false; });
}

}  // namespace penstock::agent
