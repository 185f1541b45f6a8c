// The threads that execute requests and ends of sessions.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::session_server {

// Threads for work that blocks, in two classes: requests may occupy some of the threads only, and
// those of one user some of these. Users take turns.
class WorkerPool {
 public:
  WorkerPool();
  ~WorkerPool();  // everything that was submitted is done first

  void submit_request(uint32_t uid, std::function<void()> work);
  void submit_end(std::function<void()> work);

 private:
  using Work = std::function<void()>;
  struct User {
    std::deque<Work> waiting;
    uint32_t running = 0;
    bool has_turn = false;  // is in turns_
  };
  void run();
  // With the mutex held.
  void give_turn(uint32_t uid, User& user);
  Work take_request(uint32_t* uid);
  void end_request(uint32_t uid);

  std::mutex mutex_;
  std::condition_variable work_;
  std::map<uint32_t, User> users_;  // that have requests
  std::deque<uint32_t> turns_;      // users that may start one
  std::deque<Work> ends_;
  uint32_t requests_waiting_ = 0;
  uint32_t requests_running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::session_server
