// A ring for kernels, as the host has it: its memory, its files, and the serving of what kernels
// ask for. docs/decisions/0015 says why reads are answered with places.
#pragma once

#include "cache_place.h"
#include "device_ring_memory.h"
#include "limits.h"

#include <array>
#include <atomic>
#include <map>
#include <memory>

#include "penstock/ring.h"
#include "penstock/route.h"

namespace penstock::api {

class Session;
struct Region;

struct DeviceRingStats {
  uint64_t requests = 0;
  uint64_t places = 0;
  uint64_t copies = 0;
  uint64_t writes = 0;
  uint64_t again = 0;
  uint64_t failed = 0;
};

// serve() and has_work() belong to one thread, until end() was called in another one after that
// thread has left the ring for good; the rest is thread safe.
class DeviceRing {
 public:
  static Outcome<std::unique_ptr<DeviceRing>> make(Session& session, Region& region,
                                                   uint32_t entries, DeviceRingMemories& memories,
                                                   engine::DeviceMemory& devices);
  // After end(), and when no kernel uses it any more.
  ~DeviceRing();

  // The number by which kernels know the file. busy when there are too many.
  Result<uint8_t> add_file(int32_t file);
  // False when there is none of that number.
  bool remove_file(uint32_t number);
  device::Ring view() const;
  DeviceRingStats stats() const;
  Session& session() const { return session_; }
  uint64_t host_bytes() const { return memory_->host().size(); }

  // Takes a batch of requests and answers them, or has them answered. False when there were none.
  bool serve();
  // Whether there are any, or the node cache is another one than that which serve() knows: one that
  // is gone keeps its memory as long as there are rings.
  bool has_work() const;

  // Kernels give up soon. Any thread, at any time.
  void close() { queue_.close(); }
  // After close(): nothing is in flight any more, nobody writes to the region.
  void end();
  // Requests that kernels still wait for, or gave up; none on a GPU that is lost.
  uint32_t outstanding();

 private:
  struct Position;
  struct Slot;
  struct Batch;
  // A view of the node cache whose places kernels may still be copying from.
  struct Held {
    std::shared_ptr<CacheView> view;
    uint64_t uses = 0;
  };

  DeviceRing(Session& session, Region& region, DeviceRingMemories::Lease memory,
             ring::KernelGeometry geometry);
  Status copy_image(engine::CopyDirection direction);

  // device_ring_serve.cc
  CacheView* view_of_cache();
  void let_go(uint32_t index);
  int check(const ring::KernelQueue::Taken& taken, int32_t file) const;
  void sort_out(Batch& batch, const ring::KernelQueue::Taken& taken, CacheView* view);
  void answer_places(Batch& batch, CacheView* view);
  void fail(const ring::KernelQueue::Taken& taken, int error);
  void transfer(const ring::KernelQueue::Taken& taken, uint32_t file);
  static void transfer_ended(route::Transfer& transfer);

  Session& session_;
  Region& region_;
  const DeviceRingMemories::Lease memory_;
  ring::KernelQueue queue_;
  const std::unique_ptr<Position[]> positions_;  // by index, as slots_
  const std::unique_ptr<Slot[]> slots_;
  // -1: none. Relaxed: a kernel learns of a number only after it was given.
  std::array<std::atomic<int32_t>, device::kFilesMax> files_;
  std::atomic<uint32_t> next_file_{0};  // relaxed: where the search for a free number begins

  // The serving thread's.
  const std::unique_ptr<Batch> batch_;
  std::map<uint64_t, Held> held_;  // by the map's serial: the newest, and those still in use
  uint64_t serial_ = 0;
  Held* newest_ = nullptr;
  CacheView::Hits hits_;

  // Relaxed: counts for people.
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> places_{0};
  std::atomic<uint64_t> copies_{0};
  std::atomic<uint64_t> writes_{0};
  std::atomic<uint64_t> again_{0};
  std::atomic<uint64_t> failed_{0};
  // Transfers in flight. Release at the end of each pairs with acquire in end().
  std::atomic<uint32_t> transfers_{0};
};

}  // namespace penstock::api
