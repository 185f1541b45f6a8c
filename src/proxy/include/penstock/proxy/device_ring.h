// A ring for kernels, as the host has it: its memory, and the taking of what kernels ask for.
// docs/decisions/0015 says why reads are answered with addresses.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>

#include "penstock/connection.h"
#include "penstock/proxy/device_ring_memory.h"
#include "penstock/proxy/limits.h"
#include "penstock/proxy/service.h"
#include "penstock/ring.h"
#include "penstock/route.h"

namespace penstock::proxy {

class DeviceRings;

// serve() and has_work() belong to one thread, until end() was called in another one after that
// thread has left the ring for good; the rest is thread safe.
class DeviceRing {
 public:
  // Makes what carries out the requests; it ends with the ring.
  using MakeService = std::function<std::unique_ptr<Service>(DeviceRing&)>;
  // `transfers` outlive the ring.
  static Outcome<std::unique_ptr<DeviceRing>> make(DeviceRings& of, connection::Region& region,
                                                   uint32_t entries, DeviceRingMemories& memories,
                                                   engine::DeviceMemory& devices,
                                                   const MakeService& make_service);
  // After end(), and when no kernel uses it any more.
  ~DeviceRing();

  DeviceRings& rings() const { return of_; }
  connection::Region& region() const { return region_; }
  ring::KernelQueue& queue() { return queue_; }
  Service& service() { return *service_; }
  device::Ring view() const;
  uint64_t host_bytes() const { return memory_->host().size(); }
  // All that were taken, and those of them that were asked for again, as bytes had been replaced.
  uint64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  uint64_t again() const { return again_.load(std::memory_order_relaxed); }

  // Takes a batch of requests and has it served. False when there were none.
  bool serve();
  bool has_work() const { return queue_.has_work() || service_->has_work(); }

  // Kernels give up soon. Any thread, at any time.
  void close() { queue_.close(); }
  // After close(): nothing is in flight any more, nothing writes to the region.
  void end() { service_->end(); }
  // Requests that kernels still wait for, or gave up; none on a GPU that is lost.
  uint32_t outstanding();

 private:
  DeviceRing(DeviceRings& of, connection::Region& region, DeviceRingMemories::Lease memory,
             ring::KernelGeometry geometry);
  Status copy_image(engine::CopyDirection direction);

  DeviceRings& of_;
  connection::Region& region_;
  const DeviceRingMemories::Lease memory_;
  ring::KernelQueue queue_;
  std::unique_ptr<Service> service_;

  // The serving thread's: kept from batch to batch.
  std::array<ring::KernelQueue::Taken, limits::kDeviceRingBatch> batch_;

  // Relaxed: counts for people.
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> again_{0};
};

}  // namespace penstock::proxy
