#include "devices.h"

#include "local_links.h"

#include "penstock/gpu.h"

namespace penstock::api {

Outcome<engine::DeviceMemory*> devices() {
  return gpu::devices();
}

void replace_devices(engine::DeviceMemory* memory) {
  forget_local_links();
  gpu::replace_devices(memory);
}

}  // namespace penstock::api
