// engine::DeviceMemory on CUDA.
//
// The driver (libcuda.so.1) is looked for when it is first asked for, so that a program with this
// library in it starts everywhere. A build without CUDA has this header too, and says so.
#pragma once

#include <memory>

#include "penstock/engine.h"
#include "penstock/gpu/peer_link.h"
#include "penstock/gpu/symmetric_device.h"

namespace penstock::gpu {

// The oldest driver that will do: CUDA 12.2. Its calls are looked up by their 12.2 versions.
inline constexpr int kDriverVersionMin = 12020;

// The GPUs of this process, made at the first call and kept for the life of the process, since
// others may use them until its end. Contexts are the devices' primary ones, shared with the CUDA
// runtime, and are made when a device is first used. Thread safe. Fails, each time with the reason,
// when this build has no CUDA parts (not_supported), or when there is no driver, no GPU, or the
// driver is too old (not_found); what to do is in the message. In a child after fork() the driver
// does not work: closed.
Outcome<engine::DeviceMemory*> devices();

// For tests: what devices() gives from now on; called before a GPU is used. It outlives all that
// devices() gave it to; null: the real ones again.
void replace_devices(engine::DeviceMemory* memory);

}  // namespace penstock::gpu
