#include "devices.h"

#include "penstock/gpu.h"

namespace penstock::api {

Outcome<engine::DeviceMemory*> devices() {
  return gpu::devices();
}

void replace_devices(engine::DeviceMemory* memory) {
  gpu::replace_devices(memory);
}

}  // namespace penstock::api
