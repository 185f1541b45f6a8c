// A proxy's GPU, by the driver.
#pragma once

#include "penstock_device/symm/far_layout.h"
#include "penstock_device/symm/state.h"
#include "proxy_device.h"

#include <array>
#include <memory>
#include <vector>

#include "penstock/gpu.h"

namespace penstock::symm {

// Calls of the program may keep all others of its context waiting, until kernels end that wait for
// this proxy: so what the proxy does has a context of its own (docs/decisions/0081). Copies have a
// stream of their own, as kernels may have to wait for the program's.
class GpuProxyDevice final : public ProxyDevice {
 public:
  // The clock outlives it.
  static Outcome<std::unique_ptr<GpuProxyDevice>> make(engine::DeviceId device,
                                                       const engine::Clock& clock);
  ~GpuProxyDevice() override;
  // With what the kernel that makes changes is given, and where it finds them. Before the first
  // turn.
  Outcome<void> start(const device::SymmState& state, device::FarChanges& changes);

  Status copy_in(uint64_t to, Bytes from) override;
  Status copy_out(MutableBytes to, uint64_t from) override;
  Status finish() override;
  bool holds(uint64_t address, uint64_t bytes) override;
  bool is_programs(uint64_t address) override;
  Status make_changes(uint64_t served) override;

 private:
  class Launcher;

  explicit GpuProxyDevice(const engine::Clock& clock);
  Outcome<void> open(engine::DeviceId device);

  // What came with a unit of 16 bytes, once the copies are done.
  struct Word {
    MutableBytes to;
    const std::byte* from;
  };
  Status copy_word_out(MutableBytes to, uint64_t from);

  const engine::Clock& clock_;
  std::unique_ptr<gpu::SymmetricDevice> copies_;
  std::unique_ptr<gpu::SymmetricDevice> apart_;         // a context, and stream, for kernels
  std::unique_ptr<gpu::SymmetricDevice> programs_;      // those in the program's context
  std::array<std::unique_ptr<Launcher>, 2> launchers_;  // in the program's context, and apart
  uint64_t heap_ = 0;
  uint64_t heap_bytes_ = 0;
  MutableBytes units_;       // of the host, in which words come
  std::vector<Word> words_;  // that are under way
  uint64_t served_ = 0;
  engine::Time since_ = engine::kNever;  // when `served_` was what it is first
  engine::Time looked_at_ = engine::kNever;
  engine::Duration waited_{};  // since then, while this process ran
};

}  // namespace penstock::symm
