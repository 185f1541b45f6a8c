#include "repair_pace.h"

#include "limits.h"

#include <algorithm>

namespace penstock::chain {

RepairPace::Copy::Copy(RepairPace& pace, uint64_t bytes)
    : pace_(pace),
      bytes_(bytes),
      begun_(pace.loop_.now()),
      is_more_than_clients_(bytes > pace.of_clients_) {
  pace_.copied_ += bytes_;
}

RepairPace::Copy::~Copy() {
  pace_.copied_ -= bytes_;
  if (!is_more_than_clients_ || !pace_.are_clients_at_work()) return;
  const engine::Time now = pace_.loop_.now();
  const engine::Duration rest = std::min<engine::Duration>((now - begun_) / 2, limits::kRestMost);
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

engine::Duration RepairPace::wait_for(uint64_t bytes) const {
  // Removals, and what is empty.
  if (bytes == 0 || !are_clients_at_work()) return {};
  const engine::Time now = loop_.now();
  if (now < rest_until_) return rest_until_ - now;
  const bool is_within = copied_ + bytes <= of_clients_;
  return copied_ > 0 && !is_within ? limits::kTurnPause : engine::Duration{};
}

RepairPace::Answer RepairPace::ask(const void* who, uint64_t bytes) {
  const auto place = std::find(waiting_.begin(), waiting_.end(), who);
  const bool others_are_before = bytes > 0 && place != waiting_.begin() && !waiting_.empty();
  engine::Duration wait = wait_for(bytes);
  if (wait == engine::Duration{} && others_are_before && are_clients_at_work()) {
    wait = limits::kTurnPause;
  }
  if (wait > engine::Duration{}) {
    if (place == waiting_.end()) waiting_.push_back(who);
    return {.wait = wait};
  }
  if (place != waiting_.end()) waiting_.erase(place);
  return {.turn = std::make_unique<Copy>(*this, bytes)};
}

}  // namespace penstock::chain
