// The one thread of a room or a launcher: descriptors that become ready, and times that come.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "penstock/base.h"

namespace penstock::job {

// Of one thread. What is called may watch, forget and set times as it likes.
class Loop {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  using Ready = std::function<void(uint32_t events)>;
  using Token = uint64_t;  // never used twice; 0: none

  Status open();
  // `events` as of epoll(7).
  Result<Token> watch(int fd, uint32_t events, Ready ready);
  void change(Token token, uint32_t events);
  // Before the descriptor is closed.
  void forget(Token token);

  Token at(Moment moment, std::function<void()> what);
  void cancel(Token token);

  // Waits for the next thing, and does all that is ready.
  void turn();

 private:
  struct Watched {
    int fd = -1;
    uint32_t events = 0;
    std::shared_ptr<Ready> ready;  // what runs stays, although it forgets itself
  };
  struct Timed {
    Token token = 0;
    std::function<void()> what;
  };

  void run_times();

  UniqueFd epoll_;
  Token next_ = 1;
  std::unordered_map<Token, Watched> watched_;
  std::multimap<Moment, Timed> times_;
};

}  // namespace penstock::job
