// Streams of simulated devices.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "penstock/sim/device_memory.h"

namespace penstock::sim {

// A thread that does what it is given in order. Thread safe.
class SimDeviceMemory::Stream {
 public:
  Stream() : thread_([this] { loop(); }) {}
  // Does what was enqueued first: gates must be open.
  ~Stream();

  void enqueue(std::function<void()> work);
  // Returns when everything that was enqueued before has been done.
  void synchronize();
  void capture();
  bool captures();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
  bool captures_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace penstock::sim
