// engine::DeviceMemory on the CUDA driver.
#pragma once

#include "driver.h"
#include "kernels.h"
#include "mailboxes.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/engine.h"
#include "penstock/ring.h"

namespace penstock::gpu {

// A device whose primary context is in use by this process.
struct Context {
  CUcontext context = nullptr;
  CUfunction gather = nullptr;
  CUfunction gather_checked = nullptr;
  CUfunction check = nullptr;
  CUfunction serve_mailbox = nullptr;            // null in a build without mailboxes
  const device::Constants* constants = nullptr;  // in device memory
};

// What lanes of one device need of the driver.
struct LaneParts {
  std::array<CUstream, 4> streams{};  // the last one has priority over the application's own
  MutableBytes memory;                // pinned
};

// As the driver names a device's memory, and what is asked of it for memory that other processes
// and network cards may be shown.
CUmemLocation location_of(uint32_t device);
CUmemAllocationProp properties_of(const Driver& driver, engine::DeviceId device);

class CudaMemory final : public engine::DeviceMemory {
 public:
  static Outcome<std::unique_ptr<CudaMemory>> open();
  // With an initialised driver; tests pass one of their own.
  static Outcome<std::unique_ptr<CudaMemory>> open(const Driver& driver);

  const std::vector<engine::DeviceFacts>& devices() const override { return facts_; }
  Result<engine::DeviceSpan> find(const void* address, uint64_t length) override;
  Outcome<engine::DeviceSpan> allocate(engine::DeviceId device, uint64_t length) override;
  Status release(const engine::DeviceSpan& span) override;
  Outcome<engine::DeviceHandle> export_handle(const engine::DeviceSpan& span) override;
  Outcome<engine::DeviceSpan> import_handle(const engine::DeviceHandle& handle) override;
  Outcome<engine::DmaBuf> export_dma_buf(const engine::DeviceSpan& span) override;
  Status settle_writes(engine::DeviceId device) override;
  Outcome<void> pin(MutableBytes memory, bool read_only) override;
  void unpin(MutableBytes memory) override;
  Outcome<std::unique_ptr<engine::StreamGate>> make_gate() override;
  Status settle(engine::DeviceId device) override;
  engine::CopyCosts costs(engine::DeviceId device) override;
  std::unique_ptr<engine::CopyLanes> make_lanes(engine::Loop& loop) override;
  Outcome<std::unique_ptr<engine::CopyMailbox>> make_mailbox(engine::DeviceId device) override {
    return mailboxes_->make(device);
  }

  const Driver& driver() const { return driver_; }
  // Makes the device's context at the first call, which may take a second.
  Outcome<Context> context(engine::DeviceId device);
  // Pinned memory that all devices reach, zeroed; never given back.
  Outcome<MutableBytes> pinned_memory(engine::DeviceId device, size_t length);
  // Parts of lanes that have ended, or new ones; always of the same size. They are given back with
  // nothing in flight, and only if the device still works.
  Outcome<LaneParts> take_lane_parts(engine::DeviceId device, size_t memory_bytes);
  void give_back(engine::DeviceId device, LaneParts parts);
  // A word of pinned memory, alone in its cache line.
  Outcome<uint32_t*> take_word();
  void give_back(uint32_t* word);

 private:
  // Memory that allocate() or import_handle() mapped.
  struct Mapping {
    CUmemGenericAllocationHandle handle = 0;
    uint64_t length = 0;  // as mapped
    bool ipc = false;     // opened by cuIpcOpenMemHandle; there is no `handle` then
    uint32_t opens = 1;   // of `ipc`: the driver maps what is opened again at the same address
  };

  explicit CudaMemory(Driver driver) : driver_(driver) {}
  Outcome<void> look_at_devices();
  Outcome<Context> make_context(uint32_t device);
  Outcome<void> prepare(Context* context);
  Outcome<const device::Constants*> copy_constants();
  Outcome<void> make_streams(LaneParts* parts);
  void enable_peers(uint32_t device);
  Outcome<CUfunction> kernel(const char* name);
  engine::DeviceId device_in_use();
  Outcome<engine::DeviceSpan> map(engine::DeviceId device, CUmemGenericAllocationHandle handle,
                                  uint64_t mapped_length, uint64_t length);
  Outcome<engine::DeviceSpan> open_ipc(engine::DeviceId device, const CUipcMemHandle& handle,
                                       uint64_t offset, uint64_t length);
  Result<engine::DeviceId> device_of(const CUuuid& uuid) const;

  const Driver driver_;
  std::vector<engine::DeviceFacts> facts_;
  std::vector<CUuuid> uuids_;
  std::vector<bool> keeps_order_;  // of what network cards write, without being asked for it
  std::mutex mutex_;
  CUlibrary library_ = nullptr;
  std::vector<Context> contexts_;                        // by device; no context yet: null
  std::map<CUdeviceptr, Mapping> mapped_;                // by address
  std::map<const std::byte*, engine::DeviceId> pinned_;  // by address, in which device's context
  std::mutex costs_mutex_;
  std::map<uint32_t, engine::CopyCosts> costs_;  // by device
  std::mutex parts_mutex_;
  std::multimap<uint32_t, LaneParts> free_parts_;  // by device
  std::mutex words_mutex_;
  std::vector<uint32_t*> free_words_;
  const std::unique_ptr<Mailboxes> mailboxes_ = make_mailboxes(*this);
};

}  // namespace penstock::gpu
