// The submitting side of a lane, and its way to another connection.
#include "penstock/lanes/lane.h"

#include "operation_check.h"

#include <algorithm>
#include <cerrno>

#include "penstock/connection.h"
#include "penstock/engine.h"
#include "penstock/lanes/limits.h"
#include "penstock/lanes/session.h"

namespace penstock::lanes {

Lane::Lane(Ring& ring, uint32_t index)
    : ring_(ring),
      session_(ring.session()),
      index_(index),
      slots_(ring.geometry().entries),
      queues_(ring.newest(), index),
      answers_(slots_.count()),
      cache_(session_.cache()),
      prepared_(slots_.count()),
      spin_looks_(limits::kSpinLooks) {
  stash_.reserve(slots_.count());
}

bool Lane::must_move() const {
  return queues_.epoch() != session_.connection().epoch();
}

// Takes a slot for an operation that has been checked. With the submitting side locked.
int Lane::take_slot(ring::Submission& entry, connection::Region* device_region, uint32_t* taken) {
  if (must_move()) {
    const std::lock_guard other(waiting_);
    move();
  }
  if (session_.connection().dead())
    return connection::fail_with(ECONNRESET, "prepare: the agent is gone");
  const uint32_t slot = slots_.take();
  if (slot == LaneSlots::kNone) return connection::fail_with(EAGAIN, "prepare: the lane is full");
  ASSERT(prepared_last_ - prepared_first_ < slots_.count());
  LaneSlot& own = slots_[slot];
  entry.slot = slot;
  entry.sequence = own.entry.sequence + 1;
  own.entry = entry;
  own.device_region = device_region;
  own.generation = 0;
  own.read_to = nullptr;
  own.state.store(State::prepared, std::memory_order_release);
  prepared_[prepared_last_++ & (slots_.count() - 1)] = slot;
  *taken = slot;
  return 0;
}

int Lane::prepare(const Io& io, const ChecksumPlace& place) {
  ring::Submission entry{};
  connection::Region* device_region = nullptr;
  int error = check_io(session_, io, place, &entry, &device_region);
  if (error != 0) return error;
  if (device_region != nullptr) transfers_.find(session_.transfers(), submitting_);
  const std::lock_guard side(submitting_);
  if (device_region != nullptr) transfers_.make_room(waiting_);
  uint32_t slot = 0;
  error = take_slot(entry, device_region, &slot);
  if (error != 0) return error;
  if (device_region != nullptr) {
    transfers_.prepare(io, slot);
  } else if (io.operation == ring::kOperationRead || io.operation == ring::kOperationWrite) {
    LaneSlot& own = slots_[slot];
    own.generation = io.region->generation;
    if (io.operation == ring::kOperationWrite) return 0;
    if (io.region->for_cards) return 0;
    own.read_to = io.region->base + io.region_offset;
    const cache_view::CacheView* const view = cache_.known();
    if (view != nullptr) view->prefetch_entry(session_.files().inode_of(entry.file), entry.offset);
  }
  return 0;
}

int Lane::prepare(const Gather& gather) {
  int error = check_gather(session_, gather);
  if (error != 0) return error;
  ring::Submission entry{};
  entry.operation = ring::kOperationRead;
  entry.file = static_cast<uint32_t>(gather.file);
  entry.user_data = gather.user_data;
  transfers_.find(session_.transfers(), submitting_);
  const std::lock_guard side(submitting_);
  transfers_.make_room(waiting_);
  uint32_t slot = 0;
  error = take_slot(entry, gather.region, &slot);
  if (error != 0) return error;
  transfers_.prepare(gather, slot);
  return 0;
}

// The region was released after the operation was prepared; another may have its number by now.
bool Lane::has_lost_region(uint32_t slot) const {
  const LaneSlot& own = slots_[slot];
  return own.generation != 0 &&
         own.generation != session_.regions().generation_of(own.entry.region);
}

void Lane::prefetch(const cache_view::CacheView& view, uint32_t slot) const {
  const LaneSlot& next = slots_[slot];
  if (next.read_to == nullptr) return;
  view.prefetch_bytes(session_.files().inode_of(next.entry.file), next.entry.offset);
}

// Answers a read from the node cache, when it is submitted. True if the operation is complete.
bool Lane::answer_from_cache(cache_view::CacheView& view, uint32_t slot) {
  LaneSlot& own = slots_[slot];
  const ring::Submission& entry = own.entry;
  const connection::OpenFiles& files = session_.files();
  // Holes are known to the store alone, and an application that may not read is told so by the
  // agent.
  if (own.read_to == nullptr || entry.flags != 0 || entry.length > limits::kCacheReadMax ||
      (files.access_of(static_cast<int32_t>(entry.file)) & wire::kOpenRead) == 0) {
    return false;
  }
  const auto bytes = view.read(files.inode_of(entry.file), entry.offset,
                               {own.read_to, static_cast<size_t>(entry.length)}, &cache_.hits());
  if (!bytes) {
    if (view.wants_more()) cache_.map().want();
    return false;
  }
  own.state.store(State::answered, std::memory_order_release);
  answers_.push({slot, engine::Route::cache, static_cast<int64_t>(*bytes)});
  return true;
}

int Lane::submit(uint32_t count) {
  const std::lock_guard side(submitting_);
  if (must_move()) {
    const std::lock_guard other(waiting_);
    move();
  }
  count = std::min(count, prepared_last_ - prepared_first_);
  if (count == 0) return 0;
  // Counted before they can complete. Relaxed: the waiting side learns of the operations through
  // the queue.
  in_flight_.fetch_add(count, std::memory_order_relaxed);
  cache_view::CacheView* const view = cache_.newest();
  const uint32_t mask = slots_.count() - 1;
  uint32_t asked = 0;
  bool answered = false;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t slot = prepared_[prepared_first_++ & mask];
    ASSERT(slots_[slot].state.load(std::memory_order_relaxed) == State::prepared);
    if (has_lost_region(slot)) [[unlikely]] {
      refuse(slot);
      answered = true;
      continue;
    }
    if (view != nullptr) {
      if (i + 1 < count) prefetch(*view, prepared_[prepared_first_ & mask]);
      if (answer_from_cache(*view, slot)) {
        answered = true;
        continue;
      }
    }
    slots_[slot].state.store(State::submitted, std::memory_order_release);
    if (slots_[slot].device_region == nullptr) {
      queues_.push(slots_[slot].entry);
      ++asked;
    } else if (!transfers_.start(slot)) {
      refuse(slot);
      answered = true;
    }
  }
  ASSERT(asked <= count);
  if (answered) queues_.wake_from_submitter();
  transfers_.submit();
  if (prepared_first_ == prepared_last_) transfers_.forget_prepared();
  if (session_.connection().dead()) {
    const std::lock_guard other(waiting_);
    fail_all();
    return static_cast<int>(count);
  }
  if (asked > 0) queues_.publish(asked);
  return static_cast<int>(count);
}

// Ends an operation whose region is gone.
void Lane::refuse(uint32_t slot) {
  ASSERT(slot < slots_.count());
  slots_[slot].state.store(State::answered, std::memory_order_release);
  answers_.push({slot, engine::Route::none, -EINVAL});
}

Outcome<int> Lane::cancel(uint64_t user_data) {
  std::vector<wire::CancelOperation> asked;
  std::vector<DeviceOperation*> transfers;
  {
    const std::lock_guard side(submitting_);
    for (uint32_t i = 0; i < slots_.count(); ++i) {
      const LaneSlot& slot = slots_[i];
      if (slot.state.load(std::memory_order_acquire) != State::submitted) continue;
      if (slot.entry.user_data != user_data) continue;
      if (slot.device_region != nullptr) {
        transfers.push_back(&transfers_.at(i));
      } else {
        asked.push_back({ring_.id(), index_, i, slot.entry.sequence});
      }
    }
  }
  for (const wire::CancelOperation& one : asked) {
    const connection::Connection::Answer answer = session_.connection().call(one, true);
    if (!answer) return answer.error();
  }
  for (DeviceOperation* const transfer : transfers) transfers_.cancel(*transfer);
  return static_cast<int>(asked.size() + transfers.size());
}

// ---- from connection to connection ----

void Lane::move() {
  // What the old agent completed counts, and keeps its order. It stays in flight until it is taken
  // out of the stash.
  Completion batch[16];
  while (const uint32_t count = take_from_queue(batch, 16)) {
    stash_.insert(stash_.end(), batch, batch + count);
    in_flight_.fetch_add(count, std::memory_order_relaxed);
  }
  if (session_.connection().dead()) {
    fail_all();
    queues_.end(session_.connection().epoch());
    return;
  }
  LaneQueues::Sleeper old = queues_.replace(ring_.newest(), index_);
  submit_again();
  // A waiter may sleep on the old queues.
  queues_.rouse(old);
}

void Lane::submit_again() {
  uint32_t again = 0;
  for (uint32_t i = 0; i < slots_.count(); ++i) {
    if (!slots_.is_with_agent(i)) continue;
    if (has_lost_region(i)) {
      stash_.push_back({slots_[i].entry.user_data, -EINVAL, 0, {}});
      slots_.give_back(i);
      continue;
    }
    ASSERT(slots_[i].entry.slot == i);
    queues_.push(slots_[i].entry);
    ++again;
  }
  ASSERT(again <= in_flight_.load(std::memory_order_relaxed));
  queues_.publish(again);
}

void Lane::fail_all() {
  for (uint32_t i = 0; i < slots_.count(); ++i) {
    if (!slots_.is_with_agent(i)) continue;
    stash_.push_back({slots_[i].entry.user_data, -ECONNRESET, 0, {}});
    slots_.give_back(i);
  }
}

// ---- between uses ----

void Lane::reset() {
  // Before anything is locked: the thread of `events_` may be about to lock the waiting side.
  events_.reset();
  const std::lock_guard submitters(submitting_);
  const std::lock_guard waiters(waiting_);
  ASSERT(idle());
  Completion dropped[16];
  while (take(dropped, 16) > 0) {
  }
  while (prepared_first_ != prepared_last_) {
    const uint32_t slot = prepared_[prepared_first_++ & (slots_.count() - 1)];
    if (slots_[slot].device_region != nullptr) transfers_.give_up(slot);
    slots_.give_back(slot);
  }
  transfers_.forget_prepared();
}

void Lane::discard_completions() {
  events_.reset();
  const std::lock_guard submitters(submitting_);
  const std::lock_guard waiters(waiting_);
  if (must_move()) move();
  Completion dropped[16];
  while (take(dropped, 16) > 0) {
  }
}

void Lane::end_transfers() {
  std::vector<DeviceOperation*> running;
  {
    const std::lock_guard side(submitting_);
    for (uint32_t i = 0; i < slots_.count(); ++i) {
      const bool submitted = slots_[i].state.load(std::memory_order_acquire) == State::submitted;
      if (submitted && slots_[i].device_region != nullptr) running.push_back(&transfers_.at(i));
    }
  }
  for (DeviceOperation* const operation : running) transfers_.cancel(*operation);
  transfers_.drain();
}

void Lane::let_go_of_cache() {
  // A thread that holds the side takes the newest view itself, now or with its next operation.
  const std::unique_lock side(submitting_, std::try_to_lock);
  if (side.owns_lock()) (void)cache_.newest();
}

}  // namespace penstock::lanes
