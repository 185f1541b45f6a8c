// A proxy's GPU, by the driver.
#pragma once

#include "penstock_device/symm/state.h"
#include "proxy_device.h"

#include <functional>
#include <memory>

#include "penstock/gpu.h"

namespace penstock::symm {

using OpenDevice =
    std::function<Outcome<std::unique_ptr<gpu::SymmetricDevice>>(engine::DeviceId device)>;

// Two streams of its own: copies never stand behind a kernel, which may not start before the
// program's kernels end that wait for just these copies.
class GpuProxyDevice final : public ProxyDevice {
 public:
  static Outcome<std::unique_ptr<GpuProxyDevice>> make(const OpenDevice& open,
                                                       engine::DeviceId device);
  // What the kernel that makes changes is given. Before the first turn.
  void set_state(const device::SymmState& state) { state_ = state; }

  Status copy_in(uint64_t to, Bytes from) override;
  Status copy_out(MutableBytes to, uint64_t from) override;
  Status finish() override;
  bool holds(uint64_t address, uint64_t bytes) override;
  Status make_changes() override;

 private:
  GpuProxyDevice(std::unique_ptr<gpu::SymmetricDevice> copies,
                 std::unique_ptr<gpu::SymmetricDevice> kernels)
      : copies_(std::move(copies)), kernels_(std::move(kernels)) {}

  const std::unique_ptr<gpu::SymmetricDevice> copies_;
  const std::unique_ptr<gpu::SymmetricDevice> kernels_;
  device::SymmState state_{};
};

}  // namespace penstock::symm
