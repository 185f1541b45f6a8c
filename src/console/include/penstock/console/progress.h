// A progress bar for a terminal, plain lines now and then elsewhere.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace penstock::console {

// Shows what the counters say, from a thread of its own, on standard error. Counters may be changed
// from any thread. finish() (or destruction) draws the final state and ends the thread.
class Progress {
 public:
  // `verb`: "import", "verify", ... With `quiet` nothing is shown.
  Progress(std::string verb, bool quiet);
  ~Progress();

  std::atomic<uint64_t> files{0};
  std::atomic<uint64_t> bytes{0};
  // 0 until known; then a share and the time left are shown.
  std::atomic<uint64_t> files_total{0};
  std::atomic<uint64_t> bytes_total{0};
  std::atomic<bool> totals_known{false};

  // `whole`: everything is done, whatever the counters say.
  void finish(bool whole = true);
  double seconds() const;

 private:
  void run();
  void draw(bool last);
  double share() const;
  std::string line() const;

  const std::string verb_;
  const bool quiet_;
  const bool terminal_;
  const int64_t started_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool finished_ = false;
  bool whole_ = false;
  std::thread thread_;
};

}  // namespace penstock::console
