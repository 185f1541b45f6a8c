#include "penstock/proxy/device_ring_memory.h"

#include <algorithm>
#include <cstring>

#include "penstock/connection.h"
#include "penstock/proxy/limits.h"

namespace penstock::proxy {

Outcome<std::unique_ptr<DeviceRingMemory>> DeviceRingMemory::make(
    engine::DeviceMemory& devices, engine::DeviceId device, const ring::KernelGeometry& geometry) {
  TRY_ASSIGN(connection::SharedMemory host,
             connection::SharedMemory::make("penstock-device-ring", geometry.host_bytes()));
  std::unique_ptr<DeviceRingMemory> memory(new DeviceRingMemory(devices, std::move(host)));
  // Pinned last: what is pinned cannot be given back while kernels run.
  TRY_ASSIGN(memory->gpu_, devices.allocate(device, geometry.device_bytes()));
  TRY(devices.pin(memory->host(), false));
  memory->pinned_ = true;
  return memory;
}

DeviceRingMemory::~DeviceRingMemory() {
  if (gpu_.data != nullptr) {
    const Status released = devices_.release(gpu_);
    if (!released.ok()) log::error("release GPU memory of a device ring: {}", released.name());
  }
  if (pinned_) devices_.unpin(host());
}

DeviceRingMemories::~DeviceRingMemories() {
  // A kernel may still use a ring that was left behind: the driver would wait for it here.
  for (std::unique_ptr<DeviceRingMemory>& one : spare_) connection::leave_behind(std::move(one));
}

std::unique_ptr<DeviceRingMemory> DeviceRingMemories::find_spare(
    engine::DeviceId device, const ring::KernelGeometry& geometry) {
  const auto found = std::find_if(spare_.begin(), spare_.end(), [&](const auto& one) {
    return one->gpu().device == device && one->host().size() == geometry.host_bytes();
  });
  if (found == spare_.end()) return nullptr;
  std::unique_ptr<DeviceRingMemory> memory = std::move(*found);
  spare_.erase(found);
  return memory;
}

Outcome<DeviceRingMemories::Lease> DeviceRingMemories::take(engine::DeviceMemory& devices,
                                                            engine::DeviceId device,
                                                            const ring::KernelGeometry& geometry) {
  std::unique_ptr<DeviceRingMemory> memory;
  {
    std::unique_lock lock(mutex_);
    if (!given_back_.wait_for(lock, limits::kReapWait, [this] { return !giving_back_; })) {
      return Failure{Code::busy,
                     "create device ring: memory of the rings before is being given back, which "
                     "waits for the kernels that run (try again when they have ended)"};
    }
    ++taken_;
    memory = find_spare(device, geometry);
  }
  if (memory != nullptr) {
    std::memset(memory->host().data(), 0, memory->host().size());
    return Lease(memory.release(), Return{this});
  }
  Outcome<std::unique_ptr<DeviceRingMemory>> made =
      DeviceRingMemory::make(devices, device, geometry);
  if (made) return Lease(made->release(), Return{this});
  std::unique_lock lock(mutex_);
  --taken_;
  give_back_if_unused(lock);
  return Unexpected(made.error());
}

void DeviceRingMemories::put_back(std::unique_ptr<DeviceRingMemory> memory) {
  std::unique_lock lock(mutex_);
  ASSERT(taken_ > 0 && memory != nullptr);
  --taken_;
  spare_.push_back(std::move(memory));
  give_back_if_unused(lock);
}

void DeviceRingMemories::give_back_if_unused(std::unique_lock<std::mutex>& lock) {
  ASSERT(lock.owns_lock());
  if (taken_ > 0 || spare_.empty()) return;
  std::vector<std::unique_ptr<DeviceRingMemory>> all;
  all.swap(spare_);
  giving_back_ = true;
  lock.unlock();
  all.clear();
  lock.lock();
  giving_back_ = false;
  given_back_.notify_all();
}

}  // namespace penstock::proxy
