// A thread that looks at what kernels report, so that a program that makes no call of this library
// hears of it, too, and its job ends.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock::nvshmem {

// Lives as long as the memory that it looks at, and ends with the process if nobody ends it before:
// also then it looks once more. Handles no signals of the program.
class KernelWatch {
 public:
  // `why` is not 0 once a kernel has reported; `tell` is called once then, by this thread, and may
  // end the process.
  KernelWatch(const uint32_t* why, std::function<void()> tell);
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  // By any thread; tells if that has not been done.
  void look();

 private:
  void run();

  const uint32_t* const why_;
  const std::function<void()> tell_;
  std::atomic<bool> has_told_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;  // under the mutex
  std::thread thread_;
};

}  // namespace penstock::nvshmem
