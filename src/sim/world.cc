#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "penstock/sim.h"

namespace penstock::sim {
namespace {

// Far more turns than any burst of work at one instant takes.
constexpr uint64_t kTurnsWithoutProgressMax = 20'000'000;

uint64_t hash_of(std::string_view text) {
  // FNV-1a, 64 bits.
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

[[noreturn]] void abort_simulation(uint64_t seed, Time now, const char* why) {
  std::fprintf(stderr, "penstock: simulation with seed %llu, at %.6f s: %s (PENSTOCK_SEED=%llu)\n",
               static_cast<unsigned long long>(seed),
               static_cast<double>(now.time_since_epoch().count()) * 1e-9, why,
               static_cast<unsigned long long>(seed));
  std::abort();
}

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != 0 ? std::strtoull(text, nullptr, 0) : otherwise;
}

}  // namespace

Time SimClock::now() const {
  if (++asked_since_advance_ > kTurnsWithoutProgressMax) {
    abort_simulation(seed_, now_, "the loops turn for ever without letting time pass");
  }
  return now_;
}

engine::WallTime SimClock::wall() const {
  constexpr int64_t kStart = 1'735'689'600'000'000'000;  // 2025-01-01T00:00:00Z
  return {kStart + now_.time_since_epoch().count()};
}

void SimClock::advance(Time to) {
  if (to <= now_) return;
  now_ = to;
  asked_since_advance_ = 0;
}

SimWorld::SimWorld(uint64_t seed)
    : seed_(seed),
      clock_(seed),
      random_(seed),
      trace_hash_(mix64(seed)),
      print_trace_(std::getenv("PENSTOCK_TRACE") != nullptr) {}

Duration SimWorld::between(Duration min, Duration max) {
  ASSERT(min <= max);
  return min + Duration(random_.below(static_cast<uint64_t>((max - min).count()) + 1));
}

bool SimWorld::buggify(std::string_view name, uint32_t permille) {
  const bool enabled = (mix64(seed_ ^ hash_of(name)) & 1) != 0;
  return enabled && chance(permille);
}

SimWorld::EventId SimWorld::at(Time when, std::string_view label, std::function<void()> action) {
  const EventId id = next_event_++;
  events_.emplace(std::pair(when, id), Event{label, std::move(action)});
  event_times_.emplace(id, when);
  return id;
}

void SimWorld::cancel(EventId id) {
  const auto found = event_times_.find(id);
  if (found == event_times_.end()) return;
  events_.erase({found->second, id});
  event_times_.erase(found);
}

void SimWorld::trace(std::string_view label, uint64_t a, uint64_t b) {
  trace_hash_ = mix64(trace_hash_ ^ hash_of(label));
  trace_hash_ = mix64(trace_hash_ ^ a);
  trace_hash_ = mix64(trace_hash_ ^ b);
  if (print_trace_) {
    std::fprintf(stderr, "%12.6f %.*s %llu %llu\n",
                 static_cast<double>(now().time_since_epoch().count()) * 1e-9,
                 static_cast<int>(label.size()), label.data(), static_cast<unsigned long long>(a),
                 static_cast<unsigned long long>(b));
  }
}

void SimWorld::give_up(const char* why) const {
  abort_simulation(seed_, now(), why);
}

bool SimWorld::poll_others(SimParker* self, Time& earliest) {
  bool worked = false;
  driving_ = true;
  for (size_t i = 0; i < parkers_.size(); ++i) {
    SimParker& other = *parkers_[i];
    if (&other == self) continue;
    other.parked_ = false;
    other.loop_->poll_or_park(engine::kNever);
    if (other.parked_) {
      earliest = std::min(earliest, other.wish_);
    } else {
      worked = true;
    }
  }
  driving_ = false;
  return worked;
}

void SimWorld::park(SimParker& self, Time deadline) {
  if (std::exchange(self.signalled_, false)) return;
  self.parked_ = true;
  self.wish_ = deadline;
  if (driving_) return;  // a loop that the world polls while another one idles
  Time earliest = deadline;
  if (poll_others(&self, earliest)) return;
  if (std::exchange(self.signalled_, false)) return;
  advance(earliest);
}

void SimWorld::advance(Time deadline) {
  const Time next = events_.empty() ? engine::kNever : events_.begin()->first.first;
  const Time target = std::min(next, deadline);
  if (target == engine::kNever) give_up("deadlock: nothing will ever happen again");
  if (target > time_limit_) give_up("the time limit of the simulation is reached");
  clock_.advance(target);
  // What these schedule for this very instant waits for the loops to have their turns first.
  const EventId end = next_event_;
  while (!events_.empty()) {
    const auto first = events_.begin();
    const auto [when, id] = first->first;
    if (when > now() || id >= end) break;
    Event event = std::move(first->second);
    events_.erase(first);
    event_times_.erase(id);
    trace(event.label, id);
    event.action();
  }
}

void SimWorld::run_for(Duration duration) {
  (void)run_until([] { return false; }, duration);
}

bool SimWorld::run_until(const std::function<bool()>& done, Duration limit) {
  ASSERT(!driving_);
  const Time end = now() + limit;
  while (!done()) {
    if (now() >= end) return false;
    Time earliest = end;
    if (!poll_others(nullptr, earliest)) advance(earliest);
  }
  return true;
}

SimParker::~SimParker() {
  std::erase(world_.parkers_, this);
}

void SimParker::drive(engine::Loop& loop) {
  ASSERT(loop_ == nullptr);
  loop_ = &loop;
  world_.parkers_.push_back(this);
}

void SimParker::park(Time deadline) {
  world_.park(*this, deadline);
}

SeedRange seed_range(uint64_t default_count) {
  return {number_from_environment("PENSTOCK_SEED", 1),
          number_from_environment("PENSTOCK_SEEDS", default_count)};
}

}  // namespace penstock::sim
