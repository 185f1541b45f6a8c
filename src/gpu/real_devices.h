// The GPUs of this machine, whatever a test has replaced them by.
#pragma once

#include "penstock/engine.h"

namespace penstock::gpu {

// As devices(), in a build with CUDA and in one without.
Outcome<engine::DeviceMemory*> real_devices();

}  // namespace penstock::gpu
