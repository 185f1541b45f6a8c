#include "crew.h"

#include <algorithm>
#include <mutex>
#include <thread>

namespace penstock::tcp {
namespace {

constexpr unsigned kHalf = 32;

uint32_t count_of(uint64_t parts) {
  return static_cast<uint32_t>(parts >> kHalf);
}
uint32_t next_of(uint64_t parts) {
  return static_cast<uint32_t>(parts);
}
bool all_taken(uint64_t parts) {
  return next_of(parts) >= count_of(parts);
}

engine::Time now() {
  return engine::system_clock().now();
}

}  // namespace

uint32_t Crew::helpers_here() {
  return std::min(std::thread::hardware_concurrency() / limits::kProcessorsOfHelper,
                  limits::kHelpersMax);
}

Crew::~Crew() {
  over_.store(true, std::memory_order_relaxed);
  wake();
  for (engine::Thread& thread : threads_) thread.join();
}

void Crew::share(uint32_t parts, const Task& task, const Meanwhile& meanwhile) {
  const std::unique_lock using_it(used_, std::try_to_lock);
  if (!using_it || !may_help()) {
    if (meanwhile) meanwhile();
    for (uint32_t part = 0; part < parts; ++part) task.call(task.work, part, 0);
    return;
  }
  task_ = task;
  done_.store(0, std::memory_order_relaxed);
  // Pairs with do_next() and, as all of these are in one order, with idle().
  parts_.store(uint64_t{parts} << kHalf, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) != 0) wake();
  if (meanwhile) meanwhile();
  uint32_t own = 0;
  while (do_next(0)) ++own;
  const engine::Time since = now();
  // Pairs with the release in do_next().
  while (done_.load(std::memory_order_acquire) != parts) __builtin_ia32_pause();
  note(parts - own, now() - since);
}

bool Crew::may_help() {
  if (rests_until_ != engine::Time{} && now() < rests_until_) return false;
  while (threads_.size() < helpers_) {
    const auto hand = static_cast<uint32_t>(threads_.size()) + 1;
    auto started = engine::Thread::start("records", "records", [this, hand] { run(hand); });
    if (!started) break;
    threads_.push_back(std::move(*started));
  }
  return !threads_.empty();
}

void Crew::wake() {
  calls_.fetch_add(1, std::memory_order_seq_cst);
  calls_.notify_all();
}

// One part, of whatever is to be done. False: all are taken.
bool Crew::do_next(uint32_t hand) {
  uint64_t parts = parts_.load(std::memory_order_acquire);
  do {
    if (all_taken(parts)) return false;
  } while (!parts_.compare_exchange_weak(parts, parts + 1, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
  // What was taken may be of a later task than what was seen first, and so is task_, which stays
  // until this part is done.
  task_.call(task_.work, next_of(parts), hand);
  done_.fetch_add(1, std::memory_order_release);
  return true;
}

// Whether it pays is seen from whether it did.
void Crew::note(uint32_t helped, engine::Duration waited) {
  fruitless_ = helped == 0 ? fruitless_ + 1 : 0;
  if (waited <= limits::kHelperWait && fruitless_ < limits::kFruitlessMax) {
    rest_ /= 2;
    return;
  }
  fruitless_ = 0;
  rest_ = std::clamp<engine::Duration>(2 * rest_, limits::kRestMin, limits::kRestMax);
  rests_until_ = now() + rest_;
}

void Crew::run(uint32_t hand) {
  engine::Time worked = now();
  while (!over_.load(std::memory_order_relaxed)) {
    bool any = false;
    while (do_next(hand)) any = true;
    const engine::Time seen = now();
    if (any) worked = seen;
    if (seen - worked < limits::kHelperSpin) {
      __builtin_ia32_pause();
    } else if (idle()) {
      worked = now();
    }
  }
}

// Sleeps until it is called; false: there is something to be done already.
bool Crew::idle() {
  const uint32_t calls = calls_.load(std::memory_order_seq_cst);
  sleeping_.fetch_add(1, std::memory_order_seq_cst);
  // Either what is to be done is seen here, or who shares it sees that somebody sleeps.
  const bool sleeps =
      all_taken(parts_.load(std::memory_order_seq_cst)) && !over_.load(std::memory_order_relaxed);
  if (sleeps) calls_.wait(calls, std::memory_order_seq_cst);
  sleeping_.fetch_sub(1, std::memory_order_seq_cst);
  return sleeps;
}

}  // namespace penstock::tcp
