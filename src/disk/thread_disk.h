// engine::Disk on a thread pool, for kernels and containers without io_uring.
#pragma once

#include "local_disk.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::disk {

class ThreadDisk final : public LocalDisk {
 public:
  ThreadDisk(const std::string& root, uint32_t thread_count, std::string reason);
  ~ThreadDisk() override;

  void set_loop(engine::Loop& loop) { loop_ = &loop; }
  engine::Parker& parker() { return parker_; }

  bool poll() override { return false; }  // completions come through the loop's remote queue
  void submit(engine::DiskOp& op) override;
  Status register_buffer(engine::BufferId, MutableBytes) override { return Code::not_supported; }
  void unregister_buffer(engine::BufferId) override {}

 private:
  void work();
  void perform(engine::DiskOp& op) const;

  engine::Loop* loop_ = nullptr;
  engine::FutexParker parker_{engine::system_clock()};
  std::mutex mutex_;
  std::condition_variable available_;
  IntrusiveList<engine::DiskOp> queue_;  // under mutex_
  bool stopping_ = false;                // under mutex_
  std::vector<std::thread> threads_;
  metrics::Counter ops_{"disk.ops"};
};

}  // namespace penstock::disk
