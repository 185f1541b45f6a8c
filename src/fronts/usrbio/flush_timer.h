// Passes on partial batches when their time has come: one thread for all rings of the process,
// started when the first ring needs it. It sleeps until the earliest deadline.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::usrbio {

// What the timer calls. flush() runs on the timer's thread and must not block for long.
class Flushable {
 public:
  virtual ~Flushable() = default;
  // Called when the time given to arm() has passed. Returns when to call again, or 0.
  virtual uint64_t flush(uint64_t now) = 0;
};

// Times are nanoseconds as of penstock_now(). Thread safe.
class FlushTimer {
 public:
  // Makes room for one more flushable, and the thread. False if there can be no thread.
  bool add(Flushable& ring);
  // Not called again once this returned; waits for a call in progress.
  void remove(Flushable& ring);
  // Calls `ring` at `time`, or earlier if it is armed for earlier.
  void arm(Flushable& ring, uint64_t time);

 private:
  struct Entry {
    Flushable* ring = nullptr;
    uint64_t time = 0;  // 0: not armed
  };
  void run();
  Entry* find(const Flushable& ring);
  Entry* earliest();

  std::mutex mutex_;
  std::condition_variable changed_;  // an earlier deadline, or a call has ended
  std::vector<Entry> entries_;
  const Flushable* calling_ = nullptr;
  bool started_ = false;
};

}  // namespace penstock::usrbio
