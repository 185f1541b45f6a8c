// The threads that execute requests and ends of sessions.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>

#include "penstock/engine.h"

namespace penstock::session_server {

// Threads for work that blocks, in two classes: requests may occupy some of the threads only, and
// those of one user some of these. Users take turns.
class FairWorkers {
 public:
  FairWorkers();
  ~FairWorkers();  // everything that was submitted is done first

  void submit_request(uint32_t uid, std::function<void()> work);
  void submit_end(std::function<void()> work);

 private:
  using Work = std::function<void()>;
  struct User {
    std::deque<Work> waiting;
    uint32_t running = 0;
    bool has_turn = false;  // is in turns_
  };
  // With the mutex held.
  bool do_next(engine::WorkerThreads::Lock& lock);
  void give_turn(uint32_t uid, User& user);
  Work take_request(uint32_t* uid);
  void end_request(uint32_t uid);

  engine::Mutex mutex_;
  std::map<uint32_t, User> users_;  // that have requests
  std::deque<uint32_t> turns_;      // users that may start one
  std::deque<Work> ends_;
  uint32_t requests_waiting_ = 0;
  uint32_t requests_running_ = 0;
  engine::WorkerThreads threads_;  // last: they use everything above
};

}  // namespace penstock::session_server
