#include "repair_pace.h"

#include "limits.h"

#include <algorithm>

namespace penstock::chain {

struct RepairPace::State {
  explicit State(engine::Loop& its_loop) : loop(its_loop) {}

  // A client whose next request follows on its last one is at work between the two.
  bool are_clients_at_work() const {
    return of_clients > 0 || (last_client && loop.now() - *last_client < limits::kClientsRest);
  }

  engine::Loop& loop;
  uint64_t of_clients = 0;  // bytes under way, and
  uint64_t copied = 0;      // of chunks being copied
  std::optional<engine::Time> last_client;
  engine::Time rest_until{};
};

RepairPace::RepairPace(engine::Loop& loop) : state_(std::make_shared<State>(loop)) {}

RepairPace::Request::Request(std::shared_ptr<State> state, uint64_t bytes)
    : state_(std::move(state)), bytes_(bytes) {
  state_->of_clients += bytes_;
}

RepairPace::Request::~Request() {
  state_->of_clients -= bytes_;
  state_->last_client = state_->loop.now();
}

RepairPace::Copy::Copy(std::shared_ptr<State> state, uint64_t bytes)
    : state_(std::move(state)),
      bytes_(bytes),
      begun_(state_->loop.now()),
      is_more_(bytes > state_->of_clients) {
  state_->copied += bytes_;
}

RepairPace::Copy::~Copy() {
  state_->copied -= bytes_;
  if (!is_more_ || !state_->are_clients_at_work()) return;
  const engine::Time now = state_->loop.now();
  const engine::Duration rest = std::min<engine::Duration>(now - begun_, limits::kRestMost);
  state_->rest_until = std::max(state_->rest_until, now + rest);
}

std::unique_ptr<RepairPace::Request> RepairPace::client_asks(uint64_t bytes) const {
  return std::make_unique<Request>(state_, bytes);
}

RepairPace::Answer RepairPace::ask(uint64_t bytes) const {
  if (state_->are_clients_at_work()) {
    const engine::Time now = state_->loop.now();
    if (now < state_->rest_until) return {.wait = state_->rest_until - now};
    const bool is_within = state_->copied + bytes <= state_->of_clients;
    if (state_->copied > 0 && !is_within) return {.wait = limits::kTurnPause};
  }
  return {.turn = std::make_shared<Copy>(state_, bytes)};
}

}  // namespace penstock::chain
