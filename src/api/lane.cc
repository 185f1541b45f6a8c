#include "lane.h"

#include "error.h"
#include "lane_transfers.h"
#include "limits.h"
#include "session.h"

#include <algorithm>
#include <cerrno>
#include <sys/eventfd.h>

#include "penstock/engine.h"

namespace penstock::api {
namespace {

constexpr uint32_t kNoSlot = UINT32_MAX;

static_assert(PENSTOCK_READ == static_cast<int>(ring::kOperationRead));
static_assert(PENSTOCK_WRITE == static_cast<int>(ring::kOperationWrite));
static_assert(PENSTOCK_SYNC == static_cast<int>(ring::kOperationSync));
static_assert(PENSTOCK_NOP == static_cast<int>(ring::kOperationNop));
static_assert(PENSTOCK_WARM == static_cast<int>(ring::kOperationFill));
static_assert(PENSTOCK_LOOK == static_cast<int>(ring::kFlagLook));
static_assert(PENSTOCK_DURABLE == static_cast<int>(ring::kFlagDurable));
static_assert(PENSTOCK_REFUSE_HOLES == static_cast<int>(ring::kFlagRefuseHoles));
static_assert(PENSTOCK_CHECKSUMS == static_cast<int>(ring::kFlagChecksums));

uint64_t now() {
  return static_cast<uint64_t>(engine::system_clock().now().time_since_epoch().count());
}

// What a flag is allowed with.
bool flags_fit(uint8_t operation, uint8_t flags) {
  switch (operation) {
    case PENSTOCK_READ:
      return (flags & ~(PENSTOCK_REFUSE_HOLES | PENSTOCK_CHECKSUMS)) == 0;
    case PENSTOCK_WRITE:
      return (flags & ~PENSTOCK_DURABLE) == 0;
    case PENSTOCK_WARM:
      return (flags & ~PENSTOCK_LOOK) == 0;
    default:
      return flags == 0;
  }
}

}  // namespace

Lane::Lane(Ring& ring, uint32_t index)
    : ring_(ring),
      session_(ring.session()),
      index_(index),
      entries_(ring.geometry().entries),
      slots_(entries_),
      free_slots_(entries_),
      answers_(entries_),
      prepared_(entries_),
      spin_looks_(limits::kSpinLooks) {
  for (uint32_t i = 0; i < entries_; ++i) free_slots_[i] = i;
  free_given_.store(entries_, std::memory_order_relaxed);
  stash_.reserve(entries_);
  memory_ = ring.memory(&epoch_);
  queues_ = ring::AppLane(memory_->layout, index_);
  queues_.announce();
}

uint32_t Lane::take_free_slot() {
  // Acquire pairs with the release in give_free_slot(): the slot's last use is over.
  if (free_given_.load(std::memory_order_acquire) == free_taken_) return kNoSlot;
  return free_slots_[free_taken_++ & (entries_ - 1)];
}

void Lane::give_free_slot(uint32_t slot) {
  slots_[slot].state.store(State::free, std::memory_order_relaxed);
  const uint32_t given = free_given_.load(std::memory_order_relaxed);
  free_slots_[given & (entries_ - 1)] = slot;
  free_given_.store(given + 1, std::memory_order_release);
}

int Lane::check(const penstock_io& io, ring::Submission* entry, Region** device_region) const {
  if (io.operation < PENSTOCK_READ || io.operation > PENSTOCK_WARM || io.reserved0 != 0 ||
      io.route >= engine::kRouteCount || !flags_fit(io.operation, io.flags)) {
    return fail_with(EINVAL, "prepare: no such operation, or a flag that does not go with it");
  }
  entry->operation = io.operation;
  entry->flags = io.flags;
  entry->deadline = io.deadline;
  entry->user_data = io.user_data;
  if (io.operation == PENSTOCK_NOP) return 0;
  if (session_.access_of(io.file) == 0) return fail_with(EBADF, "prepare: the file is not open");
  entry->file = static_cast<uint32_t>(io.file);
  if (io.operation == PENSTOCK_SYNC) return 0;
  if (io.length == 0 || io.length > limits::kIoBytesMax) {
    return fail_with(EINVAL, "prepare: the length is 0 or over 64 MiB");
  }
  if (!range_within(io.offset, io.length, limits::kFileBytesMax)) {
    return fail_with(EINVAL, "prepare: the range is beyond the largest file");
  }
  entry->offset = io.offset;
  entry->length = io.length;
  return io.operation == PENSTOCK_WARM ? 0 : check_region(io, entry, device_region);
}

int Lane::check_region(const penstock_io& io, ring::Submission* entry,
                       Region** device_region) const {
  auto* const region = reinterpret_cast<Region*>(io.region);
  if (region == nullptr || region->session != &session_) {
    return fail_with(EINVAL, "prepare: the region is not of this session");
  }
  if (!range_within(io.region_offset, io.length, region->size)) {
    return fail_with(EINVAL, "prepare: the range leaves the region");
  }
  entry->region = region->id;
  entry->region_offset = io.region_offset;
  if (region->device) {
    *device_region = region;
    return check_transfer(io);
  }
  if (io.route != PENSTOCK_ROUTE_ANY) {
    return fail_with(EINVAL, "prepare: a route can be chosen for GPU memory only");
  }
  return (io.flags & PENSTOCK_CHECKSUMS) != 0 ? check_checksums(io, *region) : 0;
}

int Lane::check_checksums(const penstock_io& io, const Region& region) {
  if (io.operation != PENSTOCK_READ) return 0;
  if ((io.offset | io.length | io.region_offset) % limits::kBlockBytes != 0) {
    return fail_with(EINVAL, "prepare: checksums are of whole blocks of 4096 bytes");
  }
  const uint64_t bytes = wire::checksum_bytes(io.length);
  if (range_within(io.region_offset + io.length, bytes, region.size)) return 0;
  return fail_with(EINVAL, "prepare: the region has no room for the checksums");
}

bool Lane::must_move() const {
  return epoch_ != session_.epoch();
}

// Takes a slot for an operation that has been checked. With the submitting side locked.
int Lane::take_place(ring::Submission& entry, Region* device_region, uint32_t* taken) {
  if (must_move()) {
    const std::lock_guard other(waiting_);
    move();
  }
  if (session_.dead()) return fail_with(ECONNRESET, "prepare: the agent is gone");
  const uint32_t slot = take_free_slot();
  if (slot == kNoSlot) return fail_with(EAGAIN, "prepare: the lane is full");
  Slot& own = slots_[slot];
  entry.slot = slot;
  entry.sequence = own.entry.sequence + 1;
  own.entry = entry;
  own.device_region = device_region;
  own.generation = 0;
  own.read_to = nullptr;
  own.state.store(State::prepared, std::memory_order_release);
  prepared_[prepared_last_++ & (entries_ - 1)] = slot;
  *taken = slot;
  return 0;
}

int Lane::prepare(const penstock_io& io) {
  ring::Submission entry{};
  Region* device_region = nullptr;
  int error = check(io, &entry, &device_region);
  if (error != 0) return error;
  if (device_region != nullptr) take_transfers_of_session();
  const std::lock_guard side(submitting_);
  if (device_region != nullptr) make_transfers();
  uint32_t slot = 0;
  error = take_place(entry, device_region, &slot);
  if (error != 0) return error;
  if (device_region != nullptr) {
    prepare_transfer(io, slot);
  } else if (io.operation == PENSTOCK_READ || io.operation == PENSTOCK_WRITE) {
    Slot& own = slots_[slot];
    const Region& region = *reinterpret_cast<const Region*>(io.region);
    own.generation = region.generation;
    if (io.operation == PENSTOCK_WRITE) return 0;
    own.read_to = region.base + io.region_offset;
    if (view_ != nullptr) view_->prefetch_entry(session_.inode_of(entry.file), entry.offset);
  }
  return 0;
}

// The region was released after the operation was prepared; another may have its number by now.
bool Lane::has_lost_region(uint32_t slot) const {
  const Slot& own = slots_[slot];
  return own.generation != 0 && own.generation != session_.region_generation(own.entry.region);
}

int Lane::submit(uint32_t count) {
  const std::lock_guard side(submitting_);
  if (must_move()) {
    const std::lock_guard other(waiting_);
    move();
  }
  count = std::min(count, prepared_last_ - prepared_first_);
  if (count == 0) return 0;
  // Before they can complete. Relaxed: the waiting side learns of the operations through the queue.
  in_flight_.fetch_add(count, std::memory_order_relaxed);
  CacheView* const view = cache_view();
  uint32_t asked = 0;
  bool answered = false;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t slot = prepared_[prepared_first_++ & (entries_ - 1)];
    if (has_lost_region(slot)) [[unlikely]] {
      put_answer({slot, engine::Route::none, -EINVAL});
      answered = true;
      continue;
    }
    if (view != nullptr) {
      if (i + 1 < count) prefetch(*view, prepared_[prepared_first_ & (entries_ - 1)]);
      if (answer(*view, slot)) {
        answered = true;
        continue;
      }
    }
    slots_[slot].state.store(State::submitted, std::memory_order_release);
    if (slots_[slot].device_region != nullptr) {
      answered |= !start_transfer(slot);
    } else {
      queues_.push(slots_[slot].entry);
      ++asked;
    }
  }
  if (answered) tell_answers();
  if (!starting_transfers_.empty()) submit_transfers();
  if (prepared_first_ == prepared_last_) prepared_regions_.clear();
  if (session_.dead()) {
    const std::lock_guard other(waiting_);
    fail_all();
    return static_cast<int>(count);
  }
  if (asked > 0 && queues_.publish(asked)) ::eventfd_write(memory_->wake.get(), 1);
  return static_cast<int>(count);
}

uint32_t Lane::take_from_queue(penstock_completion* completions, uint32_t max) {
  uint32_t total = 0;
  ring::Completion batch[16];
  while (total < max) {
    const uint32_t count = queues_.take(batch, std::min<uint32_t>(max - total, 16));
    if (count == 0) break;
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const ring::Completion& from = batch[i];
      // An agent that answers what was not asked is not believed.
      if (from.slot >= entries_) continue;
      Slot& slot = slots_[from.slot];
      if (slot.state.load(std::memory_order_acquire) != State::submitted ||
          slot.entry.sequence != from.sequence || slot.device_region != nullptr) {
        continue;
      }
      completions[total + known++] = {slot.entry.user_data, from.result, from.route, {}};
      give_free_slot(from.slot);
    }
    in_flight_.fetch_sub(known, std::memory_order_release);
    total += known;
  }
  return total;
}

uint32_t Lane::take(penstock_completion* completions, uint32_t max) {
  uint32_t count = 0;
  while (count < max && stash_taken_ < stash_.size()) completions[count++] = stash_[stash_taken_++];
  if (stash_taken_ == stash_.size() && stash_taken_ > 0) {
    in_flight_.fetch_sub(static_cast<uint32_t>(stash_.size()), std::memory_order_release);
    stash_.clear();
    stash_taken_ = 0;
  }
  count += take_answers(completions + count, max - count);
  count += take_transfers(completions + count, max - count);
  return count + take_from_queue(completions + count, max - count);
}

// Operations on GPU memory end by themselves, whatever happens to the agent.
bool Lane::is_with_agent(uint32_t slot) const {
  return slots_[slot].state.load(std::memory_order_relaxed) == State::submitted &&
         slots_[slot].device_region == nullptr;
}

void Lane::fail_all() {
  for (uint32_t i = 0; i < entries_; ++i) {
    if (!is_with_agent(i)) continue;
    stash_.push_back({slots_[i].entry.user_data, -ECONNRESET, 0, {}});
    give_free_slot(i);
  }
}

void Lane::move() {
  // What the old agent completed counts, and keeps its order. It stays in flight until it is taken
  // out of the stash.
  penstock_completion batch[16];
  while (const uint32_t count = take_from_queue(batch, 16)) {
    stash_.insert(stash_.end(), batch, batch + count);
    in_flight_.fetch_add(count, std::memory_order_relaxed);
  }
  if (session_.dead()) {
    fail_all();
    epoch_ = session_.epoch();
    return;
  }
  uint64_t epoch = 0;
  std::shared_ptr<RingMemory> memory = ring_.memory(&epoch);
  ring::AppLane old = queues_;
  const std::shared_ptr<RingMemory> keep = memory_;
  {
    const std::lock_guard lock(queues_mutex_);
    memory_ = std::move(memory);
    queues_ = ring::AppLane(memory_->layout, index_);
    epoch_ = epoch;
  }
  queues_.announce();
  uint32_t again = 0;
  for (uint32_t i = 0; i < entries_; ++i) {
    if (!is_with_agent(i)) continue;
    if (has_lost_region(i)) {
      stash_.push_back({slots_[i].entry.user_data, -EINVAL, 0, {}});
      give_free_slot(i);
      continue;
    }
    queues_.push(slots_[i].entry);
    ++again;
  }
  if (queues_.publish(again)) ::eventfd_write(memory_->wake.get(), 1);
  // A waiter may sleep on the old queues.
  roused_.store(true, std::memory_order_seq_cst);
  old.rouse();
}

bool Lane::spin(uint32_t wanted) const {
  for (uint32_t i = 0; i < spin_looks_; ++i) {
    if (ready() >= wanted) return true;
    help_transfers();
    ring::pause();
  }
  return false;
}

int Lane::wait(penstock_completion* completions, uint32_t max, uint32_t min, uint64_t deadline,
               bool only_own) {
  min = std::min(min, max);
  uint32_t count = 0;
  while (true) {
    std::unique_lock side(waiting_);
    // Cleared before anything is looked at: whoever sets it later ends the sleep below. An
    // exchange, so that it acquires what was written before the stores in rouse() and move().
    roused_.exchange(false, std::memory_order_seq_cst);
    if (must_move()) {
      side.unlock();
      const std::lock_guard submitters(submitting_);
      const std::lock_guard waiters(waiting_);
      if (must_move()) move();
      continue;
    }
    count += take(completions + count, max - count);
    if (count >= min) return static_cast<int>(count);
    // Transfers end by themselves, soon after the agent, and are returned first.
    if (session_.dead() && !has_transfers() && ready() == 0) {
      return count > 0 ? static_cast<int>(count) : fail_with(ECONNRESET, "wait: the agent is gone");
    }
    uint32_t wanted = std::min(min - count, entries_);
    if (only_own) {
      wanted = std::min(wanted, in_flight_.load(std::memory_order_relaxed));
      if (wanted == 0) return static_cast<int>(count);
    }
    if (deadline == 0 || (!spin(wanted) && deadline != PENSTOCK_FOREVER && now() >= deadline)) {
      return static_cast<int>(count + take(completions + count, max - count));
    }
    if (ready() >= wanted) continue;
    if (has_transfers()) transfers_.load(std::memory_order_acquire)->leave_alone();
    // The copies keep the memory mapped while this thread sleeps without the lock.
    ring::AppLane queues = queues_;
    const std::shared_ptr<RingMemory> memory = memory_;
    side.unlock();
    const uint64_t began = now();
    queues.sleep(wanted, deadline, roused_);
    // As engine::Loop::run() does: spin only while it pays.
    const bool short_sleep = now() - began < limits::kSpinNanoseconds;
    spin_looks_ = short_sleep ? limits::kSpinLooks : spin_looks_ / 2;
  }
}

std::vector<Lane::Target> Lane::targets(uint64_t user_data,
                                        std::vector<DeviceOperation*>* transfers) {
  const std::lock_guard side(submitting_);
  std::vector<Target> found;
  for (uint32_t i = 0; i < entries_; ++i) {
    if (slots_[i].state.load(std::memory_order_acquire) != State::submitted) continue;
    if (slots_[i].entry.user_data != user_data) continue;
    if (slots_[i].device_region != nullptr) {
      transfers->push_back(&operations_[i]);
    } else {
      found.push_back({i, slots_[i].entry.sequence});
    }
  }
  return found;
}

int Lane::take_ready(penstock_completion* completions, uint32_t max) {
  const std::lock_guard submitters(submitting_);
  const std::lock_guard waiters(waiting_);
  if (must_move()) move();
  return static_cast<int>(take(completions, max));
}

void Lane::sleep(uint64_t deadline) {
  std::unique_lock side(waiting_);
  // As in wait(). What is there, or has happened to the session, is for take_ready().
  const bool roused = roused_.exchange(false, std::memory_order_seq_cst);
  if (roused || must_move() || ready() > 0 || stash_taken_ < stash_.size()) return;
  ring::AppLane queues = queues_;
  const std::shared_ptr<RingMemory> memory = memory_;
  side.unlock();
  queues.sleep(1, deadline, roused_);
}

void Lane::reset() {
  const std::lock_guard submitters(submitting_);
  const std::lock_guard waiters(waiting_);
  penstock_completion dropped[16];
  while (take(dropped, 16) > 0) {
  }
  while (prepared_first_ != prepared_last_) {
    const uint32_t slot = prepared_[prepared_first_++ & (entries_ - 1)];
    if (slots_[slot].device_region != nullptr) operations_[slot].region = nullptr;
    give_free_slot(slot);
  }
  prepared_regions_.clear();
}

void Lane::discard_completions() {
  const std::lock_guard submitters(submitting_);
  const std::lock_guard waiters(waiting_);
  if (must_move()) move();
  penstock_completion dropped[16];
  while (take(dropped, 16) > 0) {
  }
}

void Lane::rouse() {
  roused_.store(true, std::memory_order_seq_cst);
  const std::lock_guard lock(queues_mutex_);
  queues_.rouse();
}

}  // namespace penstock::api
