// Set-up of queue pairs between processes, over connections on which both have proven who they are
// (decision 0058; docs/formats/verbs.md).
#pragma once

#include <memory>

#include "penstock/engine.h"

namespace penstock::rails {

namespace internal {
class Board;
}  // namespace internal

// What the loops of a process share: which of them serves what, and which nodes are vouched for by
// a connection. Outlives their RailNets. Thread safe, but for what belongs to one loop.
class Introductions {
 public:
  // The service runs in that loop.
  explicit Introductions(engine::Loop& loop);
  ~Introductions();
  Introductions(const Introductions&) = delete;
  Introductions& operator=(const Introductions&) = delete;

  // Answers those who ask for queue pairs; to be served over TCP, at kIntroductionService.
  engine::Service& service();
  // From now on whoever asks is told "closed". `done` completes when nobody waits for an answer.
  // Once, in the service's loop, after it was withdrawn; before the service's Net goes.
  void stop(engine::Op& done);

  internal::Board& board() { return *board_; }

 private:
  std::unique_ptr<internal::Board> board_;
};

}  // namespace penstock::rails
