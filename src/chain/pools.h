// Memory for what comes from other replicas: updates on their way, and chunks that repair copies
// (decision 0044, *Memory*).
//
// There is a pool for each place in a chain. What is held at one place waits for memory of the next
// place only, and the last waits for none: so targets that stand before and behind one another in
// different chains do not wait in a ring.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "penstock/base.h"

namespace penstock::chain {

class Pools {
  struct State;

 public:
  // Places behind all others: of who heals a block, and of who has its bytes.
  static constexpr size_t kHealing = SIZE_MAX - 1;
  static constexpr size_t kSource = SIZE_MAX;

  // So much of the pool of one place, for as long as it is there. It may outlive the pools.
  class Share {
   public:
    Share(std::shared_ptr<State> state, size_t place, uint64_t bytes);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // The replica that holds it stands somewhere else in a new version of its chain.
    void move_to(size_t place);

   private:
    const std::shared_ptr<State> state_;
    size_t place_;
    const uint64_t bytes_;
  };
  using Held = std::shared_ptr<Share>;

  explicit Pools(uint64_t most) : state_(std::make_shared<State>(most)) {}
  ~Pools();
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  // Null: others wait, or there is not so much left. A pool of which nothing is taken has enough
  // for whatever comes, so that everybody has a turn.
  Held take(size_t place, uint64_t bytes);
  // `then` has so much when all who asked before have got theirs. It is called from where memory is
  // given back, and begins nothing there itself.
  void wait(const void* who, size_t place, uint64_t bytes, std::function<void(Held)> then);
  // What this one waits for is not wanted any more.
  void forget(const void* who);

  // So it is with all.
  void close();

  // In all places.
  uint64_t held() const;

 private:
  struct Waiting {
    const void* who = nullptr;
    uint64_t bytes = 0;
    std::function<void(Held)> then;
  };
  struct Pool {
    uint64_t taken = 0;
    std::deque<Waiting> waiting;
  };
  struct State : std::enable_shared_from_this<State> {
    explicit State(uint64_t its_most) : most(its_most) {}
    bool has_room(const Pool& pool, uint64_t bytes) const;
    Held take(size_t place, uint64_t bytes);
    void give_back(size_t place, uint64_t bytes);
    void serve(size_t place);

    const uint64_t most;
    std::map<size_t, Pool> pools;
  };

  const std::shared_ptr<State> state_;
};

}  // namespace penstock::chain
