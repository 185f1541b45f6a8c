// When chunks are copied for repair, beside what clients ask of the same target (decision 0056):
// these keep half of it.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "penstock/engine.h"

namespace penstock::chain {

class RepairPace {
  struct State;

 public:
  // What clients ask for, for as long as it is under way: requests of their own, and updates of
  // theirs that a predecessor sends on.
  class Request {
   public:
    Request(std::shared_ptr<State> state, uint64_t bytes);
    ~Request();
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

   private:
    const std::shared_ptr<State> state_;
    const uint64_t bytes_;
  };
  // A chunk that is being copied.
  class Copy {
   public:
    Copy(std::shared_ptr<State> state, uint64_t bytes);
    ~Copy();
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;

   private:
    const std::shared_ptr<State> state_;
    const uint64_t bytes_;
    const engine::Time begun_;
    // More than clients had under way.
    const bool is_more_;
  };
  using Turn = std::shared_ptr<Copy>;

  // `loop` outlives all turns and requests.
  explicit RepairPace(engine::Loop& loop);

  std::unique_ptr<Request> client_asks(uint64_t bytes) const;

  // The turn of a chunk of so many bytes, or how long to wait before it is asked for again. While
  // clients are at work it comes when no more is copied than they have under way, or nothing at
  // all; after one that was more than that there is a rest for as long as it took.
  struct Answer {
    Turn turn{};
    engine::Duration wait{};
  };
  Answer ask(uint64_t bytes) const;

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace penstock::chain
