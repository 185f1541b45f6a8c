// The thread that a room has where no launcher is: it accepts who comes, until all have gone.
#pragma once

#include "loop.h"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::job {

// Made, closed and destroyed by one thread, of the process that made it: a child by fork() has
// nothing of it but the same epoll, and leaves it alone. What it is given runs in its own thread.
class RoomThread {
 public:
  struct Work {
    std::function<void(UniqueFd)> adopt;
    std::function<bool()> is_over;
    std::function<void()> end;  // destroys what lives in the loop
  };

  RoomThread() = default;
  // As close(), without waiting for anybody.
  ~RoomThread();
  RoomThread(const RoomThread&) = delete;
  RoomThread& operator=(const RoomThread&) = delete;

  // Before start(): for what lives in it.
  Result<void, Failure> open();
  Loop& loop() { return loop_; }
  // `listener` has no O_NONBLOCK yet; UNIX ones take only processes of this user.
  Result<void, Failure> start(UniqueFd listener, Work work);
  // Waits until the work is over, but not longer than this; then it ends.
  void close(std::chrono::milliseconds patience);
  bool is_of_this_process() const { return ::getpid() == process_; }

 private:
  void serve();
  void accept_all();
  void listen_again();

  const pid_t process_ = ::getpid();
  Loop loop_;
  Work work_;
  UniqueFd listener_;
  Loop::Token listening_ = 0;
  UniqueFd wake_;
  std::atomic<int64_t> closing_ms_{-1};  // what close() waits; -1: it was not called
  std::thread thread_;
};

}  // namespace penstock::job
