#include "repair_pace.h"

#include "limits.h"

#include <algorithm>

namespace penstock::chain {

RepairPace::Copy::Copy(RepairPace& pace, uint64_t bytes)
    : pace_(pace), bytes_(bytes), begun_(pace.loop_.now()), is_more_(bytes > pace.of_clients_) {
  pace_.copied_ += bytes_;
}

RepairPace::Copy::~Copy() {
  pace_.copied_ -= bytes_;
  if (!is_more_ || !pace_.are_clients_at_work()) return;
  const engine::Time now = pace_.loop_.now();
  const engine::Duration rest = std::min<engine::Duration>(now - begun_, limits::kRestMost);
  pace_.rest_until_ = std::max(pace_.rest_until_, now + rest);
}

void RepairPace::end_request(uint64_t bytes) {
  ASSERT(of_clients_ >= bytes);
  of_clients_ -= bytes;
  last_client_ = loop_.now();
}

// A client whose next request follows on its last one is at work between the two.
bool RepairPace::are_clients_at_work() const {
  return of_clients_ > 0 || (last_client_ && loop_.now() - *last_client_ < limits::kClientsRest);
}

RepairPace::Answer RepairPace::ask(uint64_t bytes) {
  if (are_clients_at_work()) {
    const engine::Time now = loop_.now();
    if (now < rest_until_) return {.wait = rest_until_ - now};
    const bool is_within = copied_ + bytes <= of_clients_;
    if (copied_ > 0 && !is_within) return {.wait = limits::kTurnPause};
  }
  return {.turn = std::make_unique<Copy>(*this, bytes)};
}

}  // namespace penstock::chain
