#include "penstock/gpu/peer_link.h"

#include "cuda_memory.h"
#include "real_devices.h"

namespace penstock::gpu {

Outcome<PeerLink> peer_link(engine::DeviceId from, engine::DeviceId to) {
  TRY_ASSIGN(engine::DeviceMemory* const memory, real_devices());
  const Driver& driver = static_cast<CudaMemory*>(memory)->driver();
  CUdevice devices[2] = {};
  CUresult result = driver.cuDeviceGet(&devices[0], static_cast<int>(from.value));
  if (result == CUDA_SUCCESS) {
    result = driver.cuDeviceGet(&devices[1], static_cast<int>(to.value));
  }
  int reaches = 0;
  int atomics = 0;
  if (result == CUDA_SUCCESS) {
    result = driver.cuDeviceGetP2PAttribute(&reaches, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
                                            devices[0], devices[1]);
  }
  // What PCIe has not, and the driver tells of NVLink alone.
  if (result == CUDA_SUCCESS) {
    result = driver.cuDeviceGetP2PAttribute(
        &atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, devices[0], devices[1]);
  }
  if (result != CUDA_SUCCESS) {
    return failure_of(
        driver, fmt::format("GPU {} and GPU {}: ask for their link", from.value, to.value), result);
  }
  if (reaches == 0) return PeerLink::none;
  return atomics != 0 ? PeerLink::nvlink : PeerLink::pcie;
}

}  // namespace penstock::gpu
