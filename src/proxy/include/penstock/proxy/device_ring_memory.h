// The memory of rings for kernels, which outlives them.
//
// The driver gives memory back only when the kernels that run have ended, and copies nothing for
// the process meanwhile (seen with driver 580). Kernels in other rings may be waiting for a copy.
// So the memory of a ring that is gone is kept for the next one, and given back with the last ring.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/connection.h"
#include "penstock/engine.h"
#include "penstock/ring.h"

namespace penstock::proxy {

// One ring's: pinned host memory, and memory of its GPU.
class DeviceRingMemory {
 public:
  static Outcome<std::unique_ptr<DeviceRingMemory>> make(engine::DeviceMemory& devices,
                                                         engine::DeviceId device,
                                                         const ring::KernelGeometry& geometry);
  ~DeviceRingMemory();

  MutableBytes host() const { return host_.bytes(); }
  const engine::DeviceSpan& gpu() const { return gpu_; }

 private:
  DeviceRingMemory(engine::DeviceMemory& devices, connection::SharedMemory host)
      : devices_(devices), host_(std::move(host)) {}

  engine::DeviceMemory& devices_;
  connection::SharedMemory host_;
  bool pinned_ = false;
  engine::DeviceSpan gpu_;
};

// What a session's rings use and have used. Thread safe; outlives the rings that end.
class DeviceRingMemories {
 public:
  // Gives it back here.
  struct Return {
    DeviceRingMemories* from = nullptr;
    void operator()(DeviceRingMemory* memory) const {
      from->put_back(std::unique_ptr<DeviceRingMemory>(memory));
    }
  };
  using Lease = std::unique_ptr<DeviceRingMemory, Return>;

  ~DeviceRingMemories();
  // Host memory of zeros. busy when memory is just being given back, which waits for kernels.
  Outcome<Lease> take(engine::DeviceMemory& devices, engine::DeviceId device,
                      const ring::KernelGeometry& geometry);

 private:
  std::unique_ptr<DeviceRingMemory> find_spare(engine::DeviceId device,
                                               const ring::KernelGeometry& geometry);
  void put_back(std::unique_ptr<DeviceRingMemory> memory);
  void give_back_if_unused(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable given_back_;
  bool giving_back_ = false;
  uint32_t taken_ = 0;
  std::vector<std::unique_ptr<DeviceRingMemory>> spare_;
};

}  // namespace penstock::proxy
