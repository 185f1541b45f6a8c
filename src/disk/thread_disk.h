// engine::Disk on a thread pool, for kernels and containers without io_uring.
#pragma once

#include "local_disk.h"

#include <atomic>
#include <mutex>

namespace penstock::disk {

class ThreadDisk final : public LocalDisk {
 public:
  ThreadDisk(const std::string& root, uint32_t thread_count, std::string reason);
  ~ThreadDisk() override;

  void set_loop(engine::Loop& loop) { loop_ = &loop; }
  engine::Parker& parker() { return parker_; }

  bool poll() override;
  bool prepare_sleep() override { return !any_done_.load(std::memory_order_relaxed); }
  void submit(engine::DiskOp& op) override;
  Status register_buffer(engine::BufferId, MutableBytes) override { return Code::not_supported; }
  void unregister_buffer(engine::BufferId) override {}

 private:
  void work(engine::DiskOp& op);
  void perform(engine::DiskOp& op) const;

  engine::Loop* loop_ = nullptr;
  engine::FutexParker parker_{engine::system_clock()};
  engine::Mutex mutex_;
  // What poll() has yet to hand to the loop: the threads themselves never touch the loop, which may
  // be gone before they are. Under mutex_.
  IntrusiveList<engine::DiskOp> done_;
  // Whether done_ holds anything; a hint, as the thread that sets it also unparks the loop.
  std::atomic<bool> any_done_{false};
  metrics::Counter ops_{"disk.ops"};
  engine::WorkerPool threads_;  // last: they use everything above
};

}  // namespace penstock::disk
