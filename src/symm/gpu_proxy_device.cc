#include "gpu_proxy_device.h"

#include "image.h"
#include "limits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace penstock::symm {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint64_t kUnit = 16;
constexpr uint64_t kUnits = 256;
constexpr std::array<const char*, 1> kFarKernels = {"penstock_symm_far_changes"};

uint64_t ended(const uint64_t& launches) {
  return __atomic_load_n(&launches, __ATOMIC_ACQUIRE);
}

// Counts in `launches` when the kernel ends.
Status launch_changes(gpu::SymmetricDevice& device, device::SymmState state, uint64_t* launches) {
  std::array<void*, 2> arguments = {&state, &launches};
  return device.launch(
      {.kernel = 0, .threads = kThreads, .arguments = arguments, .stream = device.own_stream()});
}

}  // namespace

// Launches the kernel in one context. A call of the program may hold up the launch: so a thread
// makes it.
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
    (void)device_.synchronize(device_.own_stream());  // the kernel, which uses the heap
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // The first launch is made here: it may take memory, and load code, for which the driver would
  // wait for kernels later.
  Outcome<void> start() {
    Status first = launch_changes(device_, state_, launches_);
    if (first.ok()) first = device_.synchronize(device_.own_stream());
    if (!first.ok())
      return Failure{first, fmt::format("GPU {}: a kernel for far GPUs", device_.id().value)};
    launched_ = ended(*launches_);
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

GpuProxyDevice::GpuProxyDevice(const engine::Clock& clock) : clock_(clock) {}
GpuProxyDevice::~GpuProxyDevice() = default;

Outcome<std::unique_ptr<GpuProxyDevice>> GpuProxyDevice::make(engine::DeviceId device,
                                                              const engine::Clock& clock) {
  std::unique_ptr<GpuProxyDevice> made(new GpuProxyDevice(clock));
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
  heap_ = reinterpret_cast<uintptr_t>(state.heap);
  heap_bytes_ = state.heap_bytes + limits::kAdoptedBytesMax;  // what it grows by among them
  TRY_ASSIGN(units_, programs_->host_words(kUnits * kUnit));
  launchers_[0] = std::make_unique<Launcher>(*programs_, state, &changes.launches[0]);
  launchers_[1] = std::make_unique<Launcher>(*apart_, state, &changes.launches[1]);
  for (const auto& launcher : launchers_) TRY(launcher->start());
  return {};
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

// The driver has words of up to 8 bytes fetched in a way that takes turns with kernels. Two words
// side by side go by a copy engine, each at once; all of a heap may be read.
Status GpuProxyDevice::copy_word_out(MutableBytes to, uint64_t from) {
  if (words_.size() * kUnit == units_.size()) TRY(finish());
  std::byte* const unit = units_.data() + words_.size() * kUnit;
  const uint64_t begin = align_down(from, kUnit);
  words_.push_back({to, unit + (from - begin)});
  return copies_->copy(unit, reinterpret_cast<const void*>(begin), kUnit, copies_->own_stream());
}

Status GpuProxyDevice::copy_out(MutableBytes to, uint64_t from) {
  if (to.size() <= sizeof(uint64_t) && from % kUnit + to.size() <= kUnit &&
      from - heap_ < heap_bytes_) {
    return copy_word_out(to, from);
  }
  return copies_->copy(to.data(), reinterpret_cast<const void*>(from), to.size(),
                       copies_->own_stream());
}

Status GpuProxyDevice::finish() {
  const Status done = copies_->synchronize(copies_->own_stream());
  for (const Word& word : words_) std::memcpy(word.to.data(), word.from, word.to.size());
  words_.clear();
  return done;
}

// Both ends: an allocation between others that are gone is the program's own fault, which the
// driver tells of.
bool GpuProxyDevice::holds(uint64_t address, uint64_t bytes) {
  return copies_->reaches(reinterpret_cast<const void*>(address)) &&
         copies_->reaches(reinterpret_cast<const void*>(address + bytes - 1));
}

bool GpuProxyDevice::is_programs(uint64_t address) {
  return copies_->is_programs(reinterpret_cast<const void*>(address));
}

// In the program's context; in the proxy's own where nothing has moved for long: then a call of the
// program holds up the launch, or kernels fill the GPU.
Status GpuProxyDevice::make_changes(uint64_t served) {
  const engine::Time now = clock_.now();
  if (since_ == engine::kNever || served != served_) {
    served_ = served;
    since_ = looked_at_ = now;
    waited_ = {};
  }
  waited_ += std::min<engine::Duration>(now - looked_at_, limits::kFarKernelsLook);
  looked_at_ = now;
  if (waited_ >= limits::kFarKernels) return Code::timed_out;
  TRY(launchers_[0]->launch());
  return now - since_ < limits::kFarChangesApart ? Status() : launchers_[1]->launch();
}

}  // namespace penstock::symm
