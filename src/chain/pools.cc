#include "pools.h"

#include <utility>

namespace penstock::chain {

Pools::Share::Share(std::shared_ptr<State> state, size_t place, uint64_t bytes)
    : state_(std::move(state)), place_(place), bytes_(bytes) {}

Pools::Share::~Share() {
  state_->give_back(place_, bytes_);
}

// The pool that it comes to may hold more than its share then, and gives nothing until it does not.
void Pools::Share::move_to(size_t place) {
  if (place == place_) return;
  state_->pools[place].taken += bytes_;
  state_->give_back(std::exchange(place_, place), bytes_);
}

// What new versions brought to a pool beyond its share is wanting in all others: so all of them
// together hold no more than their shares, but for what an empty one gives.
bool Pools::State::has_room(const Pool& pool, uint64_t bytes) const {
  if (pool.taken == 0) return true;
  uint64_t taken = pool.taken;
  for (const auto& [place, other] : pools) {
    if (&other != &pool && other.taken > most) taken += other.taken - most;
  }
  return taken <= most && bytes <= most - taken;
}

Pools::Held Pools::State::take(size_t place, uint64_t bytes) {
  pools[place].taken += bytes;
  return std::make_shared<Share>(shared_from_this(), place, bytes);
}

void Pools::State::give_back(size_t place, uint64_t bytes) {
  ASSERT(pools[place].taken >= bytes);
  const bool was_in_the_way = pools[place].taken > most;
  pools[place].taken -= bytes;
  if (!was_in_the_way) return serve(place);
  for (const auto& [each, pool] : pools) serve(each);
}

void Pools::State::serve(size_t place) {
  std::deque<Waiting>& waiting = pools[place].waiting;
  while (!waiting.empty() && has_room(pools[place], waiting.front().bytes)) {
    const Waiting next = std::move(waiting.front());
    waiting.pop_front();
    next.then(take(place, next.bytes));
  }
}

Pools::~Pools() {
  for (const auto& [place, pool] : state_->pools) ASSERT(pool.waiting.empty());
}

Pools::Held Pools::take(size_t place, uint64_t bytes) {
  const Pool& pool = state_->pools[place];
  if (!pool.waiting.empty() || !state_->has_room(pool, bytes)) return nullptr;
  return state_->take(place, bytes);
}

void Pools::wait(const void* who, size_t place, uint64_t bytes, std::function<void(Held)> then) {
  Pool& pool = state_->pools[place];
  ASSERT(!pool.waiting.empty() || !state_->has_room(pool, bytes));
  pool.waiting.push_back({who, bytes, std::move(then)});
}

void Pools::forget(const void* who) {
  for (auto& [place, pool] : state_->pools) {
    std::erase_if(pool.waiting, [who](const Waiting& one) { return one.who == who; });
    // It may have been in the way of a smaller one.
    state_->serve(place);
  }
}

void Pools::close() {
  for (auto& [place, pool] : state_->pools) pool.waiting.clear();
}

uint64_t Pools::held() const {
  uint64_t all = 0;
  for (const auto& [place, pool] : state_->pools) all += pool.taken;
  return all;
}

}  // namespace penstock::chain
