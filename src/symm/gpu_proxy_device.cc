#include "gpu_proxy_device.h"

#include "image.h"
#include "limits.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace penstock::symm {
namespace {

constexpr std::array<const char*, 1> kFarKernels = {"penstock_symm_far_changes"};

uint64_t ended(const uint64_t& launches) {
  return __atomic_load_n(&launches, __ATOMIC_ACQUIRE);
}

// Counts in `launches` when the kernel ends.
Status launch_changes(gpu::SymmetricDevice& device, device::SymmState state, uint64_t* launches) {
  std::array<void*, 2> arguments = {&state, &launches};
  return device.launch({.kernel = 0, .arguments = arguments, .stream = device.own_stream()});
}

}  // namespace

// Launches the kernel in the program's context, where it takes no turns with the program's kernels.
// A call of the program may hold up the launch: so a thread makes it.
class GpuProxyDevice::Launcher {
 public:
  Launcher(gpu::SymmetricDevice& device, const device::SymmState& state, uint64_t* launches)
      : device_(device), state_(state), launches_(launches) {}
  ~Launcher() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  Outcome<void> start() {
    TRY_ASSIGN(thread_, start_thread("the thread that launches for far GPUs", [this] { run(); }));
    return {};
  }

  // Does nothing while the launch before is being made, or its kernel has not ended.
  Status launch() {
    if (is_launching_.load(std::memory_order_acquire)) return {};
    if (!failed_.ok()) return failed_;
    if (ended(*launches_) != launched_) return {};
    ++launched_;
    is_launching_.store(true, std::memory_order_relaxed);
    {
      const std::lock_guard lock(mutex_);
      is_wanted_ = true;
    }
    changed_.notify_one();
    return {};
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_wanted_ || is_stopping_; });
      if (is_stopping_) return;
      is_wanted_ = false;
      lock.unlock();
      failed_ = launch_changes(device_, state_, launches_);
      is_launching_.store(false, std::memory_order_release);
      lock.lock();
    }
  }

  gpu::SymmetricDevice& device_;
  const device::SymmState state_;
  uint64_t* const launches_;
  uint64_t launched_ = 0;
  std::atomic<bool> is_launching_{false};
  Status failed_;  // the thread's, while it launches
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_wanted_ = false;
  bool is_stopping_ = false;
  std::thread thread_;
};

GpuProxyDevice::GpuProxyDevice() : clock_(engine::system_clock()) {}
GpuProxyDevice::~GpuProxyDevice() = default;

Outcome<std::unique_ptr<GpuProxyDevice>> GpuProxyDevice::make(engine::DeviceId device) {
  std::unique_ptr<GpuProxyDevice> made(new GpuProxyDevice());
  TRY(made->open(device));
  return made;
}

Outcome<void> GpuProxyDevice::open(engine::DeviceId device) {
  TRY_ASSIGN(programs_, gpu::open_symmetric_device(device));
  TRY_ASSIGN(apart_, gpu::open_device_apart(device));
  TRY_ASSIGN(copies_, gpu::open_device_apart(device));
  TRY(programs_->load_kernels(kernel_image(), kFarKernels));
  TRY(apart_->load_kernels(kernel_image(), kFarKernels));
  return {};
}

Outcome<void> GpuProxyDevice::start(const device::SymmState& state, device::FarChanges& changes) {
  state_ = state;
  changes_ = &changes;
  launcher_ = std::make_unique<Launcher>(*programs_, state, &changes.launches[0]);
  return launcher_->start();
}

// Words by the stream itself, as copies may go in parts.
Status GpuProxyDevice::copy_in(uint64_t to, Bytes from) {
  if (from.size() == sizeof(uint32_t) && penstock::is_aligned(to, sizeof(uint32_t))) {
    uint32_t value = 0;
    std::memcpy(&value, from.data(), sizeof value);
    return copies_->store(reinterpret_cast<uint32_t*>(to), value, copies_->own_stream());
  }
  if (from.size() == sizeof(uint64_t) && penstock::is_aligned(to, sizeof(uint64_t))) {
    uint64_t value = 0;
    std::memcpy(&value, from.data(), sizeof value);
    const Status stored =
        copies_->store(reinterpret_cast<uint64_t*>(to), value, copies_->own_stream());
    if (stored.code() != Code::not_supported) return stored;
  }
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

// In the program's context; in the proxy's own where nothing has moved for long: then a call of the
// program holds up the launch, or kernels fill the GPU.
Status GpuProxyDevice::make_changes(uint64_t served) {
  const engine::Time now = clock_.now();
  if (since_ == engine::kNever || served != served_) {
    served_ = served;
    since_ = now;
  }
  TRY(launcher_->launch());
  if (now - since_ < limits::kFarChangesApart || ended(changes_->launches[1]) != launched_apart_)
    return {};
  ++launched_apart_;
  return launch_changes(*apart_, state_, &changes_->launches[1]);
}

}  // namespace penstock::symm
