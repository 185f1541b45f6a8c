// GPUs for tests of symmetric memory, in real processes without a GPU.
//
//   test::SimulatedDevices gpus({.devices = 2});
//   gpu::replace_symmetric_devices(&gpus);   // what gpu::open_symmetric_device() gives from now on
//
// The processes of a job reach one another's "GPU memory" as they do on real ones: each allocates
// some, hands a descriptor on, and maps the others' beside its own.
#pragma once

#include "penstock/testing_gpus/devices.h"
#include "penstock/testing_gpus/host_kernels.h"
