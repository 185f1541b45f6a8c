// A stream of a simulated GPU.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock::test {

// Does what it is given in order: in a thread of its own, or at once. Thread safe.
class DeviceQueue {
 public:
  explicit DeviceQueue(bool at_once);
  // What was given first is done.
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  // No other one of this process has it.
  uint64_t number() const { return number_; }
  void add(std::function<void()> work);
  // Returns when all that was added before is done.
  void synchronize();

 private:
  void loop();

  const bool at_once_;
  const uint64_t number_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool is_busy_ = false;
  bool ends_ = false;
  std::thread thread_;  // the last, as it uses the others
};

}  // namespace penstock::test
