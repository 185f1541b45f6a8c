// SimDeviceMemory: engine::DeviceMemory without a GPU, for tests, on virtual or real time.
//
// Device memory is emulated in host memory, but its addresses cannot be followed: a processor that
// touches one gets SIGSEGV, as with a real device. Copies of one loop complete late and out of
// order, and move their bytes when they complete and not before.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "penstock/engine.h"

namespace penstock::sim {

// Off unless set. Permille are per operation.
struct SimDeviceFaults {
  engine::Duration delay_min = std::chrono::microseconds(2);
  engine::Duration delay_max = std::chrono::microseconds(100);
  engine::Duration late{};  // copies end so much later than their lanes expect
  // One bit of what lands is wrong; never of copies between devices and by mailboxes, and only of
  // those that are verified on the device if that is wanted.
  uint32_t flip_permille = 0;
  bool flip_verified_alone = false;
  uint32_t lose_permille = 0;  // the device is lost
  uint32_t full_permille = 0;  // of mailboxes: there is no room for a kernel
  bool driver_broken = false;  // as after a fault of a kernel: it knows no memory any more
  bool pins_nothing = false;   // as when memory may not be locked
  // Host memory that is mapped for reading only cannot be pinned.
  bool refuse_read_only_pins = false;
};

struct SimDeviceOptions {
  uint32_t devices = 2;
  uint64_t memory_bytes = 64 * kMiB;  // of each
  std::vector<uint64_t> peers = {};   // as DeviceFacts has them; empty: all of one another
  uint8_t host = 1;                   // GPUs of different hosts have different UUIDs
};

class SimDeviceMemory final : public engine::DeviceMemory {
 public:
  // `random` outlives it and is used under its lock only.
  explicit SimDeviceMemory(engine::Random& random, SimDeviceOptions options = {});
  ~SimDeviceMemory() override;

  const std::vector<engine::DeviceFacts>& devices() const override { return facts_; }
  Result<engine::DeviceSpan> find(const void* address, uint64_t length) override;
  Outcome<engine::DeviceSpan> allocate(engine::DeviceId device, uint64_t length) override;
  Status release(const engine::DeviceSpan& span) override;
  // Handles are known to this object only: within the process.
  Outcome<engine::DeviceHandle> export_handle(const engine::DeviceSpan& span) override;
  Outcome<engine::DeviceSpan> import_handle(const engine::DeviceHandle& handle) override;
  // What simulated network cards map: the memory of the whole device.
  Outcome<engine::DmaBuf> export_dma_buf(const engine::DeviceSpan& span) override;
  Status settle_writes(engine::DeviceId) override { return Code::ok; }
  Outcome<void> pin(MutableBytes memory, bool read_only) override;
  void unpin(MutableBytes memory) override;
  Outcome<std::unique_ptr<engine::StreamGate>> make_gate() override;
  Status settle(engine::DeviceId device) override;
  engine::CopyCosts costs(engine::DeviceId) override { return {}; }
  std::unique_ptr<engine::CopyLanes> make_lanes(engine::Loop& loop) override;
  Outcome<std::unique_ptr<engine::CopyMailbox>> make_mailbox(engine::DeviceId device) override;

  // A stream of a program's: a thread that does one thing after the other, in real time. It lives
  // as long as this object.
  engine::DeviceStream make_stream();
  // What a program would enqueue: a kernel, a copy. Null: the default stream, here and in gates.
  void enqueue(engine::DeviceStream stream, std::function<void()> work);
  void synchronize(engine::DeviceStream stream);
  // The stream refuses gates from now on, as one that is being captured.
  void capture(engine::DeviceStream stream);

  // For tests. Set before lanes are made, or from the thread that polls them.
  SimDeviceFaults faults;
  std::atomic<bool> shareable{true};  // false: no handles, as of CUDA's stream-ordered pools
  // What a kernel would see or do. The range must be allocated.
  void peek(const std::byte* address, MutableBytes out);
  void poke(std::byte* address, Bytes bytes);
  // Where code that plays a kernel, with all liberties of one, finds what lies at the address.
  std::byte* as_kernels_see(const std::byte* address);
  // A kernel that runs. Memory is not given back until the last one has ended, and while a thread
  // waits to give some back no copy of lanes goes on: so it is with NVIDIA's driver 580.
  void begin_kernel();
  void end_kernel();
  // Whether a thread waits for kernels to end. Relaxed: copies stop and go on some time later.
  bool is_blocked() const { return blocked_.load(std::memory_order_relaxed) > 0; }
  // From now on nothing works on the device any more.
  void lose(engine::DeviceId device);
  uint64_t copies() const;
  // Of them, those between devices that do not reach each other: slow detours through host memory.
  uint64_t detours() const;
  // Requests that mailboxes have carried out, and of them those from pinned memory.
  uint64_t mailed() const;
  uint64_t mailed_pinned() const;
  bool pinned(Bytes memory) const;
  uint64_t unpins() const;  // ever

 private:
  class Lanes;
  class Mailbox;
  class Stream;
  class Gate;
  struct Allocation {
    uint64_t length = 0;
    uint64_t id = 0;
    uint32_t users = 1;  // the allocation itself and each import
  };
  struct Device {
    std::byte* address = nullptr;  // what all users of it see; cannot be followed
    std::byte* bytes = nullptr;    // the same memory, for this object
    UniqueFd memory;               // what both are mapped from
    uint64_t next = 0;  // allocations go on from here, so that addresses are not reused soon
    std::map<uint64_t, Allocation> allocations;  // by offset
    bool lost = false;
  };
  struct Pinned {
    uint64_t length = 0;
    bool read_only = false;
  };
  struct Place {
    Device* device = nullptr;
    uint64_t offset = 0;
    const Allocation* allocation = nullptr;
  };

  Stream& stream_of(engine::DeviceStream stream);

  // Takes the lock when no kernel runs any more.
  std::unique_lock<std::mutex> lock_without_kernels();

  // All with the lock held.
  Place place_of(const void* address, uint64_t length);
  std::byte* reach(const engine::CopyOp& op, const std::byte* address, uint64_t length,
                   bool device_side);
  Status perform(engine::CopyOp& op);
  void note_detour(const engine::CopyOp& op);
  Status check(engine::CopyOp& op);
  // What holds the range; null when it is not pinned.
  const Pinned* find_pinned(const std::byte* address, uint64_t length) const;
  void copy_from_host(std::byte* to, const std::byte* from, uint64_t length) const;

  engine::Random& random_;
  std::vector<engine::DeviceFacts> facts_;
  const uint64_t memory_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable kernels_ended_;
  uint32_t kernels_ = 0;
  std::atomic<uint32_t> blocked_{0};  // those that wait for kernels to end
  std::vector<Device> devices_;
  std::map<const std::byte*, Pinned> pinned_;
  uint64_t next_allocation_ = 1;
  uint64_t copies_ = 0;
  uint64_t detours_ = 0;
  uint64_t mailed_ = 0;
  uint64_t mailed_pinned_ = 0;
  uint64_t unpins_ = 0;
  std::vector<std::unique_ptr<Stream>> streams_;  // the first is the default one
};

}  // namespace penstock::sim
