#include "real_devices.h"

#include <atomic>

#include "penstock/gpu.h"

namespace penstock::gpu {

namespace {

// Release in replace_devices() pairs with acquire in devices().
std::atomic<engine::DeviceMemory*> replacement{nullptr};
// The same for replace_symmetric_devices() and the four calls that it replaces.
std::atomic<SymmetricDevices*> symmetric_replacement{nullptr};

}  // namespace

Outcome<engine::DeviceMemory*> devices() {
  if (engine::DeviceMemory* const memory = replacement.load(std::memory_order_acquire)) {
    return memory;
  }
  return real_devices();
}

void replace_devices(engine::DeviceMemory* memory) {
  replacement.store(memory, std::memory_order_release);
}

Outcome<engine::DeviceId> current_device() {
  SymmetricDevices* const devices = symmetric_replacement.load(std::memory_order_acquire);
  return devices != nullptr ? devices->current() : real_current_device();
}

bool has_current_device() {
  SymmetricDevices* const devices = symmetric_replacement.load(std::memory_order_acquire);
  return devices != nullptr ? devices->has_current() : has_real_current_device();
}

Result<void, Failure> make_current(engine::DeviceId device) {
  SymmetricDevices* const devices = symmetric_replacement.load(std::memory_order_acquire);
  return devices != nullptr ? devices->make_current(device) : make_real_current(device);
}

Outcome<std::unique_ptr<SymmetricDevice>> open_symmetric_device(engine::DeviceId device) {
  SymmetricDevices* const devices = symmetric_replacement.load(std::memory_order_acquire);
  return devices != nullptr ? devices->open(device) : open_real_device(device);
}

Outcome<std::unique_ptr<SymmetricDevice>> open_device_apart(engine::DeviceId device) {
  SymmetricDevices* const devices = symmetric_replacement.load(std::memory_order_acquire);
  return devices != nullptr ? devices->open_apart(device) : open_real_device_apart(device);
}

void replace_symmetric_devices(SymmetricDevices* devices) {
  symmetric_replacement.store(devices, std::memory_order_release);
}

}  // namespace penstock::gpu
