// When chunks are copied for repair, beside what clients ask of the same target (decision 0056):
// these keep half of it.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "penstock/engine.h"

namespace penstock::chain {

// Of one target, for all its chains. It outlives its turns, and the loop outlives it.
class RepairPace {
 public:
  // A chunk that is being copied, as long as it is there.
  class Copy {
   public:
    Copy(RepairPace& pace, uint64_t bytes);
    ~Copy();
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;

   private:
    RepairPace& pace_;
    const uint64_t bytes_;
    const engine::Time begun_;
    const bool is_more_than_clients_;  // have under way
  };
  using Turn = std::unique_ptr<Copy>;

  explicit RepairPace(engine::Loop& loop) : loop_(loop) {}

  // A client's request is under way, its own or an update of its that a predecessor sends on; and
  // has ended.
  void begin_request(uint64_t bytes) { of_clients_ += bytes; }
  void end_request(uint64_t bytes);

  // The turn of a chunk of so many bytes, or how long to wait before `who` asks for one again.
  // While clients are at work it comes, in the order of asking, when no more is copied than they
  // have under way, or nothing at all; after one that was more than that there is a rest, half
  // as long as it took.
  struct Answer {
    Turn turn{};
    engine::Duration wait{};
  };
  Answer ask(const void* who, uint64_t bytes);
  // It asks no more.
  void forget(const void* who) { std::erase(waiting_, who); }

 private:
  bool are_clients_at_work() const;
  // How long a chunk of so many bytes has to wait, were nobody before it; nothing: not at all.
  engine::Duration wait_for(uint64_t bytes) const;

  engine::Loop& loop_;
  uint64_t of_clients_ = 0;  // bytes under way, and
  uint64_t copied_ = 0;      // of chunks that are being copied
  std::optional<engine::Time> last_client_;
  engine::Time rest_until_{};
  std::deque<const void*> waiting_;
};

}  // namespace penstock::chain
