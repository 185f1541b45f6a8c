// Threads for operations on host memory that no calling thread waits for: those of batches and
// streams.
#pragma once

#include "backend.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::cufile {

// First come, first served. Threads start with the first operation, and take no signals.
class HostThreads {
 public:
  // `body` carries out an operation and fills in its end.
  explicit HostThreads(std::function<void(Operation&)> body);
  // Nothing is in progress.
  ~HostThreads();

  // Where no thread can be started, it ends at once.
  void submit(Operation& operation);
  // One that has not begun ends with cancelled.
  void cancel(Operation& operation);

 private:
  Status add_thread();
  void loop();

  const std::function<void(Operation&)> body_;
  std::mutex mutex_;
  std::condition_variable work_;
  IntrusiveList<Operation> waiting_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::cufile
