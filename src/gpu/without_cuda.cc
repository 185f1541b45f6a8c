#include "real_devices.h"

#include "penstock/gpu.h"

namespace penstock::gpu {

namespace {

Failure left_out() {
  return {Code::not_supported,
          "this build has no CUDA parts (build it where nvcc 12.2 or newer is installed)"};
}

}  // namespace

Outcome<engine::DeviceMemory*> real_devices() {
  return left_out();
}

Outcome<engine::DeviceId> real_current_device() {
  return left_out();
}

bool has_real_current_device() {
  return false;
}

Result<void, Failure> make_real_current(engine::DeviceId) {
  return left_out();
}

Outcome<PeerLink> peer_link(engine::DeviceId, engine::DeviceId) {
  return left_out();
}

Outcome<std::unique_ptr<SymmetricDevice>> open_real_device(engine::DeviceId) {
  return left_out();
}

Outcome<std::unique_ptr<SymmetricDevice>> open_real_device_apart(engine::DeviceId) {
  return left_out();
}

Outcome<MutableBytes> variable_of(const LoadedCode&, const char*, engine::DeviceId) {
  return left_out();
}

}  // namespace penstock::gpu
