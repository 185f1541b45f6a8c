// Threads for operations on host memory that nobody waits for.
#pragma once

#include "backend.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::cufile {

// Starts a thread that takes no signals. False when there is none to be had.
bool start_thread(std::thread* thread, std::function<void()> body);

// First come, first served. Threads start with the first operation, and take no signals.
class HostThreads {
 public:
  // `body` carries out an operation and fills in its end.
  explicit HostThreads(std::function<void(Operation&)> body);
  // Nothing is in progress.
  ~HostThreads();

  // Ends with no_memory at once if no thread can be made for it.
  void submit(Operation& operation);
  // One that has not begun ends with cancelled.
  void cancel(Operation& operation);

 private:
  // False when there is no thread at all.
  bool hand_over(Operation& operation);
  void loop();

  const std::function<void(Operation&)> body_;
  std::mutex mutex_;
  std::condition_variable work_;
  IntrusiveList<Operation> waiting_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::cufile
