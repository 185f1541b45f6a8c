// The GPUs that are there, whatever a test has put in their place.
#pragma once

#include "penstock/engine.h"

namespace penstock::gpu {

// As devices(), in a build with CUDA and in one without.
Outcome<engine::DeviceMemory*> real_devices();

}  // namespace penstock::gpu
