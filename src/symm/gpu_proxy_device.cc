#include "gpu_proxy_device.h"

#include "image.h"

#include <array>

namespace penstock::symm {
namespace {

constexpr std::array<const char*, 2> kFarKernels = {"penstock_symm_far_changes",
                                                    "penstock_symm_reserve_stacks"};
constexpr uint32_t kFarChanges = 0;
constexpr uint32_t kReserveStacks = 1;

// Later the driver might wait for kernels that wait for the proxy.
Outcome<void> reserve_stacks(gpu::SymmetricDevice& device) {
  uint32_t at = 0;
  std::array<void*, 1> arguments = {&at};
  Status reserved = device.launch(
      {.kernel = kReserveStacks, .arguments = arguments, .stream = device.own_stream()});
  if (reserved.ok()) reserved = device.synchronize(device.own_stream());
  if (reserved.ok()) return {};
  return Failure{reserved, fmt::format("GPU {}: memory for the stacks of kernels that ask for far "
                                       "memory",
                                       device.id().value)};
}

}  // namespace

Outcome<std::unique_ptr<GpuProxyDevice>> GpuProxyDevice::make(const OpenDevice& open,
                                                              engine::DeviceId device) {
  TRY_ASSIGN(auto copies, open(device));
  TRY_ASSIGN(auto kernels, open(device));
  TRY(kernels->load_kernels(kernel_image(), kFarKernels));
  TRY(reserve_stacks(*kernels));
  return std::unique_ptr<GpuProxyDevice>(new GpuProxyDevice(std::move(copies), std::move(kernels)));
}

Status GpuProxyDevice::copy_in(uint64_t to, Bytes from) {
  return copies_->copy(reinterpret_cast<void*>(to), from.data(), from.size(),
                       copies_->own_stream());
}

Status GpuProxyDevice::copy_out(MutableBytes to, uint64_t from) {
  return copies_->copy(to.data(), reinterpret_cast<const void*>(from), to.size(),
                       copies_->own_stream());
}

Status GpuProxyDevice::finish() {
  return copies_->synchronize(copies_->own_stream());
}

// Both ends: an allocation between others that are gone is the program's own fault, which the
// driver tells of.
bool GpuProxyDevice::holds(uint64_t address, uint64_t bytes) {
  return copies_->reaches(reinterpret_cast<const void*>(address)) &&
         copies_->reaches(reinterpret_cast<const void*>(address + bytes - 1));
}

Status GpuProxyDevice::make_changes() {
  std::array<void*, 1> arguments = {&state_};
  return kernels_->launch(
      {.kernel = kFarChanges, .arguments = arguments, .stream = kernels_->own_stream()});
}

}  // namespace penstock::symm
