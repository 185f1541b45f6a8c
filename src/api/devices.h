// The GPUs that sessions of this process use.
#pragma once

#include "penstock/engine.h"

namespace penstock::api {

// Those of gpu::devices(), unless a test has put others in their place.
Outcome<engine::DeviceMemory*> devices();

// For tests: before any session uses a GPU. It outlives all sessions; null: the real ones again.
void replace_devices(engine::DeviceMemory* memory);

}  // namespace penstock::api
