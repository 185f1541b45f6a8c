// The waiting side of a lane.
#include <algorithm>
#include <cerrno>

#include "penstock/connection.h"
#include "penstock/engine.h"
#include "penstock/lanes/lane.h"
#include "penstock/lanes/limits.h"
#include "penstock/lanes/session.h"

namespace penstock::lanes {
namespace {

uint64_t now() {
  return static_cast<uint64_t>(engine::system_clock().now().time_since_epoch().count());
}

}  // namespace

void Lane::note_taken(uint32_t count) {
  const uint32_t before = in_flight_.fetch_sub(count, std::memory_order_release);
  ASSERT(before >= count);
}

uint32_t Lane::take_stash(Completion* completions, uint32_t max) {
  uint32_t count = 0;
  while (count < max && stash_taken_ < stash_.size()) completions[count++] = stash_[stash_taken_++];
  if (stash_taken_ == stash_.size() && stash_taken_ > 0) {
    note_taken(static_cast<uint32_t>(stash_.size()));
    stash_.clear();
    stash_taken_ = 0;
  }
  return count;
}

uint32_t Lane::take_answers(Completion* completions, uint32_t max) {
  const uint32_t count = std::min(max, answers_.ready());
  for (uint32_t i = 0; i < count; ++i) {
    const Answer& from = answers_.take();
    DASSERT(slots_[from.slot].state.load(std::memory_order_relaxed) == State::answered);
    completions[i] = {
        slots_[from.slot].entry.user_data, from.result, static_cast<uint8_t>(from.route), {}};
    slots_.give_back(from.slot);
  }
  if (count > 0) note_taken(count);
  return count;
}

uint32_t Lane::take_transfers(Completion* completions, uint32_t max) {
  const uint32_t count = std::min(max, transfers_.ready());
  for (uint32_t i = 0; i < count; ++i) {
    const DeviceOperation& from = transfers_.take();
    ASSERT(from.region == nullptr && slots_[from.slot].device_region != nullptr);
    completions[i] = {
        slots_[from.slot].entry.user_data, from.result, static_cast<uint8_t>(from.route), {}};
    slots_.give_back(from.slot);
  }
  if (count > 0) note_taken(count);
  return count;
}

uint32_t Lane::take_from_queue(Completion* completions, uint32_t max) {
  uint32_t total = 0;
  ring::Completion batch[16];
  while (total < max) {
    const uint32_t count = queues_.take(batch, std::min<uint32_t>(max - total, 16));
    if (count == 0) break;
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const ring::Completion& from = batch[i];
      // A completion of an operation that is not in flight is ignored: the agent is not trusted
      // here.
      if (from.slot >= slots_.count()) continue;
      const LaneSlot& slot = slots_[from.slot];
      if (slot.state.load(std::memory_order_acquire) != State::submitted ||
          slot.entry.sequence != from.sequence || slot.device_region != nullptr) {
        continue;
      }
      completions[total + known++] = {slot.entry.user_data, from.result, from.route, {}};
      slots_.give_back(from.slot);
    }
    note_taken(known);
    total += known;
  }
  return total;
}

uint32_t Lane::take(Completion* completions, uint32_t max) {
  uint32_t count = take_stash(completions, max);
  count += take_answers(completions + count, max - count);
  count += take_transfers(completions + count, max - count);
  return count + take_from_queue(completions + count, max - count);
}

bool Lane::spin(uint32_t wanted) const {
  for (uint32_t i = 0; i < spin_looks_; ++i) {
    if (ready() >= wanted) return true;
    transfers_.help();
    ring::pause();
  }
  return false;
}

// Without the side's lock.
void Lane::sleep_for(uint32_t wanted, uint64_t deadline, LaneQueues::Sleeper sleeper) {
  const uint64_t began = now();
  sleeper.sleep(wanted, deadline);
  // As engine::Loop::run() does: spin only while it pays.
  const bool short_sleep = now() - began < limits::kSpinNanoseconds;
  spin_looks_ = short_sleep ? limits::kSpinLooks : spin_looks_ / 2;
}

int Lane::wait(Completion* completions, uint32_t max, uint32_t min, uint64_t deadline,
               bool only_own) {
  const int count = wait_until(completions, max, min, deadline, only_own);
  if (events_ != nullptr) {
    const std::lock_guard side(waiting_);
    tell_events();
  }
  return count;
}

int Lane::wait_until(Completion* completions, uint32_t max, uint32_t min, uint64_t deadline,
                     bool only_own) {
  min = std::min(min, max);
  uint32_t count = 0;
  while (true) {
    std::unique_lock side(waiting_);
    (void)queues_.begin_to_look();
    if (must_move()) {
      side.unlock();
      const std::lock_guard submitters(submitting_);
      const std::lock_guard waiters(waiting_);
      if (must_move()) move();
      continue;
    }
    count += take(completions + count, max - count);
    if (count >= min) return static_cast<int>(count);
    // Transfers end by themselves, soon after the agent's death, and are returned before the error.
    if (session_.connection().dead() && !transfers_.any_in_progress() && ready() == 0) {
      return count > 0 ? static_cast<int>(count)
                       : connection::fail_with(ECONNRESET, "wait: the agent is gone");
    }
    uint32_t wanted = std::min(min - count, slots_.count());
    if (only_own) {
      wanted = std::min(wanted, in_flight_.load(std::memory_order_relaxed));
      if (wanted == 0) return static_cast<int>(count);
    }
    if (deadline == 0 || (!spin(wanted) && deadline != ring::kForever && now() >= deadline)) {
      return static_cast<int>(count + take(completions + count, max - count));
    }
    if (ready() >= wanted) continue;
    transfers_.leave_alone();
    if (events_ != nullptr) {
      // The thread of `events_` sleeps on the queues, where only one can: this one waits for it
      // instead.
      events_->begin_sleep();
      tell_events();
      side.unlock();
      events_->sleep(deadline);
      continue;
    }
    LaneQueues::Sleeper sleeper = queues_.sleeper();
    side.unlock();
    sleep_for(wanted, deadline, std::move(sleeper));
  }
}

int Lane::take_ready(Completion* completions, uint32_t max) {
  const std::lock_guard submitters(submitting_);
  const std::lock_guard waiters(waiting_);
  if (must_move()) move();
  return static_cast<int>(take(completions, max));
}

void Lane::sleep(uint64_t deadline) {
  std::unique_lock side(waiting_);
  // As in wait(). Completions, or a new connection, are for the next take_ready().
  const bool woken = queues_.begin_to_look();
  if (woken || must_move() || ready() > 0 || stash_taken_ < stash_.size()) return;
  LaneQueues::Sleeper sleeper = queues_.sleeper();
  side.unlock();
  sleeper.sleep(1, deadline);
}

// ---- for event loops ----

Outcome<int> Lane::descriptor() {
  if (events_ == nullptr) {
    TRY_ASSIGN(events_, LaneEvents::start(*this));
    const std::lock_guard side(waiting_);
    tell_events();
  }
  return events_->descriptor();
}

// With the waiting side locked, after the waiting thread has looked for completions.
void Lane::tell_events() {
  if (!has_completions()) {
    events_->unready();
    if (!has_completions()) return;
  }
  events_->ready();
}

bool Lane::watch(const std::atomic<bool>& stop) {
  std::unique_lock side(waiting_);
  (void)queues_.begin_to_look();
  if (stop.load(std::memory_order_seq_cst)) return false;
  if (must_move()) {
    side.unlock();
    const std::lock_guard submitters(submitting_);
    const std::lock_guard waiters(waiting_);
    if (must_move()) move();
    return has_completions();
  }
  if (has_completions()) return true;
  LaneQueues::Sleeper sleeper = queues_.sleeper();
  side.unlock();
  sleeper.sleep(1, ring::kForever);
  side.lock();
  return has_completions();
}

}  // namespace penstock::lanes
