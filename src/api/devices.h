// The GPUs that sessions of this process use.
#pragma once

#include "penstock.h"

#include <string>

#include "penstock/engine.h"

namespace penstock::api {

// Those of gpu::devices(), unless a test has replaced them.
Outcome<engine::DeviceMemory*> devices();

// Why DeviceMemory::find() has not found what a program named; `what`: "region register".
Failure find_failure(const std::string& what, Status status);

// A handle for other processes; 0, or a negative errno with its sentence for the calling thread.
int export_span(const engine::DeviceSpan& span, penstock_device_handle* handle);

// For tests: before any session uses a GPU. It outlives all sessions; null: the real ones again.
void replace_devices(engine::DeviceMemory* memory);

}  // namespace penstock::api
