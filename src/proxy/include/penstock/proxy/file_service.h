// Reads and writes of files, asked for by kernels.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "penstock/cache_view.h"
#include "penstock/lanes.h"
#include "penstock/proxy/device_ring.h"
#include "penstock/ring.h"
#include "penstock/route.h"

namespace penstock::proxy {

struct FileServiceStats {
  uint64_t addresses = 0;  // answered with their address in the node cache
  uint64_t copies = 0;     // reads brought by a copy engine
  uint64_t writes = 0;
  uint64_t failed = 0;
};

// add_file(), remove_file() and stats() are thread safe.
class FileService final : public Service {
 public:
  FileService(lanes::Session& session, DeviceRing& ring);
  ~FileService() override;

  DeviceRing& ring() const { return ring_; }
  // The number by which kernels know the file. busy when there are too many.
  Result<uint8_t> add_file(int32_t file);
  // False when there is none of that number.
  bool remove_file(uint32_t number);
  FileServiceStats stats() const;

  void serve(std::span<const ring::KernelQueue::Taken> asked) override;
  // The node cache is another one than serve() knows: one that is gone keeps its memory as long as
  // it is held.
  bool has_work() const override { return cache_.is_old(); }
  void end() override;

 private:
  using Taken = ring::KernelQueue::Taken;
  struct Position;
  struct Slot;
  struct Batch;

  void let_go(uint32_t index);
  int check(const Taken& taken, int32_t file) const;
  void sort_out(Batch& batch, const Taken& taken, cache_view::CacheView* view);
  void answer_addresses(Batch& batch, cache_view::CacheView* view);
  void fail(const Taken& taken, int error);
  void transfer(const Taken& taken, uint32_t file);
  static void transfer_ended(route::Transfer& transfer);

  lanes::Session& session_;
  DeviceRing& ring_;
  ring::KernelQueue& queue_;
  const connection::Region& region_;
  route::Transfers& transfers_;
  const std::unique_ptr<Position[]> positions_;  // by index, as slots_
  const std::unique_ptr<Slot[]> slots_;
  // -1: none. Relaxed: a kernel learns of a number only after it was given.
  std::array<std::atomic<int32_t>, device::kFilesMax> files_;
  std::atomic<uint32_t> next_file_{0};  // relaxed: where the search for a free number begins

  // The serving thread's.
  const std::unique_ptr<Batch> batch_;
  cache_view::ViewHold cache_;  // kernels may still be copying from it

  // Relaxed: counts for people.
  std::atomic<uint64_t> addresses_{0};
  std::atomic<uint64_t> copies_{0};
  std::atomic<uint64_t> writes_{0};
  std::atomic<uint64_t> failed_{0};
  // Transfers in flight. Release at the end of each pairs with acquire in end().
  std::atomic<uint32_t> in_flight_{0};
};

}  // namespace penstock::proxy
