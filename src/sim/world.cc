#include "fibers.h"
#include "limits.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "penstock/sim.h"

namespace penstock::sim {
namespace {

uint64_t hash_of(std::string_view text) {
  // FNV-1a, 64 bits.
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

[[noreturn]] void abort_simulation(uint64_t seed, Time now, const char* why,
                                   const std::string& threads = {}) {
  std::fprintf(stderr,
               "penstock: simulation with seed %llu, at %.6f s: %s (PENSTOCK_SEED=%llu)\n%s",
               static_cast<unsigned long long>(seed),
               static_cast<double>(now.time_since_epoch().count()) * 1e-9, why,
               static_cast<unsigned long long>(seed), threads.c_str());
  std::abort();
}

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != 0 ? std::strtoull(text, nullptr, 0) : otherwise;
}

}  // namespace

Time SimClock::now() const {
  if (++asked_since_advance_ > limits::kTurnsWithoutProgressMax) {
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
      fibers_(std::make_unique<Fibers>(*this)),
      trace_hash_(mix64(seed)),
      print_trace_(std::getenv("PENSTOCK_TRACE") != nullptr) {}

SimWorld::~SimWorld() = default;

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
  abort_simulation(seed_, now(), why, fibers_->describe());
}

void SimWorld::turn(const SimParker* except, Time deadline) {
  bool worked = false;
  for (size_t i = 0; i < parkers_.size(); ++i) {
    SimParker& parker = *parkers_[i];
    if (&parker == except || is_stopped(parker.process_)) continue;
    switch (fibers_->turn(parker)) {
      case Fibers::Turned::worked:
        worked = true;
        break;
      case Fibers::Turned::slept:
        deadline = std::min(deadline, parker.next_call());
        break;
      case Fibers::Turned::waits:
        break;
    }
  }
  worked |= fibers_->run_one();
  if (!worked) advance(deadline);
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

SimWorld::Process SimWorld::enter_process(Process process) {
  return fibers_->enter_process(process);
}

void SimWorld::run_for(Duration duration) {
  (void)fibers_->wait({.address = &duration, .what = "time to pass"}, duration);
}

bool SimWorld::run_until(const std::function<bool()>& done, Duration limit) {
  ASSERT(fibers_->on_main());  // A thread waits for a condition.
  const Time end = now() + limit;
  while (!done()) {
    if (now() >= end) return false;
    turn(nullptr, end);
  }
  return true;
}

SimParker::SimParker(SimWorld& world, const engine::Loop* loop)
    : world_(world), own_loop_(loop), process_(world.fibers_->process()) {
  world_.parkers_.push_back(this);
}

SimParker::~SimParker() {
  ASSERT(loop_ == nullptr && thread_ == nullptr);
  std::erase(world_.parkers_, this);
}

void SimParker::drive(engine::Loop& loop, bool at_all_times) {
  ASSERT(loop_ == nullptr);
  loop_ = &loop;
  at_all_times_ = at_all_times;
}

void SimParker::stop_driving() {
  if (loop_ != nullptr) world_.fibers_->end(*this);
}

Time SimParker::next_call() const {
  if (signalled_) return world_.now();
  return own_loop_ == nullptr ? wish_ : std::min(wish_, own_loop_->next_work());
}

void SimParker::park(Time deadline) {
  if (std::exchange(signalled_, false)) return;
  wish_ = deadline;
  slept_at_ = world_.now();
  Fibers& fibers = *world_.fibers_;
  if (fibers.on_main()) {
    world_.turn(this, deadline);
  } else {
    fibers.sleep(*this);
    signalled_ = false;
  }
}

SeedRange seed_range(uint64_t default_count) {
  return {number_from_environment("PENSTOCK_SEED", 1),
          number_from_environment("PENSTOCK_SEEDS", default_count)};
}

}  // namespace penstock::sim
