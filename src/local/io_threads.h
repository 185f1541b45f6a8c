// Threads for host reads and writes that may block.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "penstock/base.h"
#include "penstock/route.h"

namespace penstock::local {

// First come, first served. Threads start when there is work for them, and take no signals.
class IoThreads {
 public:
  // `body` does one operation and tells its end; it is called in any of the threads.
  IoThreads(uint32_t count_max, std::function<void(route::HostIo&)> body);
  // Nothing is in progress.
  ~IoThreads();

  // One thread at a time. After an error there is no thread for it, and it is not in progress.
  Status submit(route::HostIo& io);
  // True if the operation had not begun: it will not.
  bool withdraw(route::HostIo& io);

 private:
  Status add_thread();
  void loop();

  const uint32_t count_max_;
  const std::function<void(route::HostIo&)> body_;
  std::mutex mutex_;
  std::condition_variable work_;
  IntrusiveList<route::HostIo> waiting_;
  uint64_t waiting_count_ = 0;
  uint64_t idle_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;  // grows in submit() only
};

}  // namespace penstock::local
