// The GPUs of this machine, whatever a test has replaced them by.
#pragma once

#include <memory>

#include "penstock/engine.h"
#include "penstock/gpu/symmetric_device.h"

namespace penstock::gpu {

// As devices(), in a build with CUDA and in one without.
Outcome<engine::DeviceMemory*> real_devices();
// As the functions of symmetric_device.h without `real`.
Outcome<engine::DeviceId> real_current_device();
bool has_real_current_device();
Result<void, Failure> make_real_current(engine::DeviceId device);
Outcome<std::unique_ptr<SymmetricDevice>> open_real_device(engine::DeviceId device);
Outcome<std::unique_ptr<SymmetricDevice>> open_real_device_apart(engine::DeviceId device);

}  // namespace penstock::gpu
