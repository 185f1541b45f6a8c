#include "ring.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>

namespace penstock::usrbio {

namespace {

// A native operation's user_data: which slot, and which part of it.
uint64_t pack(uint32_t slot, uint32_t part) {
  return uint64_t{part} << 32 | slot;
}
uint32_t slot_of(uint64_t user_data) {
  return static_cast<uint32_t>(user_data);
}
uint32_t part_of(uint64_t user_data) {
  return static_cast<uint32_t>(user_data >> 32);
}

// A time on CLOCK_REALTIME as a deadline of the native interface. What has passed, and what is no
// time, becomes 0: do not wait.
uint64_t deadline_of(const timespec* until) {
  if (until == nullptr) return PENSTOCK_FOREVER;
  constexpr int64_t kSecond = 1'000'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (until->tv_nsec < 0 || until->tv_nsec >= kSecond) return 0;
  if (until->tv_sec < now.tv_sec) return 0;
  const int64_t seconds = until->tv_sec - now.tv_sec;
  if (seconds > INT64_MAX / kSecond / 2) return PENSTOCK_FOREVER;
  const int64_t left = seconds * kSecond + until->tv_nsec - now.tv_nsec;
  return left <= 0 ? 0 : penstock_now() + static_cast<uint64_t>(left);
}

}  // namespace

uint32_t passable(const RingOptions& options, uint32_t held, bool expired) {
  if (options.io_depth == 0 || expired) return held;
  if (options.io_depth > 0) return held - held % static_cast<uint32_t>(options.io_depth);
  if (options.timeout_ns == 0) return held;
  return held - held % static_cast<uint32_t>(-options.io_depth);
}

Ring::Ring(front::Session& session, FlushTimer& timer, const RingOptions& options)
    : session_(session),
      timer_(timer),
      options_(options),
      timed_(options.io_depth != 0 && options.timeout_ns != 0),
      slots_(std::make_unique<Slot[]>(options.entries)),
      free_(options.entries),
      order_mask_(std::bit_ceil(options.entries) - 1),
      order_(std::make_unique<uint32_t[]>(order_mask_ + 1)) {}

Result<std::unique_ptr<Ring>, int> Ring::create(front::Session& session, FlushTimer& timer,
                                                const RingOptions& options) {
  std::unique_ptr<Ring> ring(new Ring(session, timer, options));
  const auto lane = session.lanes.claim(native_entries(options.entries));
  if (!lane) {
    session.seen(-lane.error());
    log::warning("usrbio: ring of {} entries: {}", options.entries, penstock_last_error());
    return Unexpected(int{lane.error()});
  }
  ring->lane_ = *lane;
  if (ring->timed_ && !timer.add(*ring)) return Unexpected(int{EAGAIN});
  return ring;
}

Ring::~Ring() {
  close();
}

void Ring::close() {
  if (timed_) timer_.remove(*this);
  if (lane_ != nullptr) session_.lanes.give_back(lane_);
  lane_ = nullptr;
}

uint32_t Ring::parts_in_flight() const {
  return parts_prepared_ - parts_completed_.load(std::memory_order_acquire);
}

int Ring::prepare(Iovs& iovs, Files& files, const hf3fs_iov& iov, bool read, void* ptr, int fd,
                  size_t offset, uint64_t length, const void* userdata) {
  if (read != options_.for_read) return -EINVAL;
  Iovs::Location location;
  const int resolved = iovs.resolve(iov, session_, ptr, length, location);
  if (resolved < 0) return resolved;
  const FileWord file = files.find(fd);
  if (file.free() || file.session() != session_.index) return -EBADF;
  if (!file.allows(read)) return -EACCES;
  if (!range_within(offset, length, limits::kFileBytesMax)) return read ? -EINVAL : -EFBIG;
  const uint64_t parts = front::part_count(length);
  if (parts > native_entries(options_.entries)) return -EINVAL;

  std::unique_lock<std::mutex> lock(submitting_, std::defer_lock);
  if (timed_) lock.lock();
  if (parts_in_flight() + parts > native_entries(options_.entries)) return -EAGAIN;
  const std::optional<uint32_t> slot = free_.take();
  if (!slot) return -EAGAIN;
  slots_[*slot] = {userdata, length, length, 0, static_cast<uint32_t>(parts)};
  penstock_io io{};
  io.operation = read ? PENSTOCK_READ : PENSTOCK_WRITE;
  io.flags = read ? (options_.refuse_holes ? PENSTOCK_REFUSE_HOLES : 0) : PENSTOCK_DURABLE;
  io.file = file.file();
  io.offset = offset;
  io.length = length;
  io.region = location.region;
  io.region_offset = location.offset;
  const int result = prepare_parts(io, *slot, static_cast<uint32_t>(parts));
  if (result < 0) {
    slots_[*slot].parts_left = 0;
    free_.untake();
    return result;
  }
  return static_cast<int>(*slot);
}

// Prepares the parts of one operation. When the first is refused nothing has happened; when a later
// one is, the operation goes ahead with those before and ends with that error.
int Ring::prepare_parts(penstock_io& io, uint32_t slot, uint32_t parts) {
  const uint64_t length = io.length;
  for (uint32_t part = 0; part < parts; ++part) {
    const front::Part own = front::part_at(length, part);
    penstock_io piece = io;
    piece.offset += own.begin;
    piece.region_offset += own.begin;
    piece.length = own.length;
    piece.user_data = pack(slot, part);
    const int result = session_.seen(penstock_lane_prepare(lane_, &piece));
    if (result < 0) {
      if (part == 0) return result;
      slots_[slot].error = result;
      slots_[slot].parts_left = part;
      parts = part;
    }
  }
  order_[prepared_ & order_mask_] = parts;
  ++prepared_;
  parts_prepared_ += parts;
  return 0;
}

// Makes the oldest held operations visible to the agent.
int Ring::pass_on(uint32_t operations) {
  uint32_t parts = 0;
  for (uint32_t i = 0; i < operations; ++i) parts += order_[(passed_ + i) & order_mask_];
  const int result = session_.seen(penstock_lane_submit(lane_, parts));
  if (result < 0 && result != -ECONNRESET) return result;
  passed_ += operations;
  return 0;
}

int Ring::submit_held(uint64_t now) {
  const bool expired = session_.dead.load(std::memory_order_relaxed) ||
                       (timed_ && held_since_ != 0 && now >= held_since_ + options_.timeout_ns);
  uint32_t left = passable(options_, submitted_ - passed_, expired);
  const uint32_t batch = options_.io_depth == 0 ? left : std::abs(options_.io_depth);
  if (left > 0) held_since_ = 0;
  while (left > 0) {
    const uint32_t operations = std::min(left, batch);
    const int result = pass_on(operations);
    if (result < 0) return result;
    left -= operations;
  }
  return 0;
}

int Ring::submit() {
  std::unique_lock<std::mutex> lock(submitting_, std::defer_lock);
  if (timed_) lock.lock();
  submitted_ = prepared_;
  const uint64_t now = timed_ ? penstock_now() : 0;
  const int result = submit_held(now);
  const bool held = submitted_ != passed_;
  if (timed_ && held && held_since_ == 0) {
    held_since_ = now;
    lock.unlock();
    timer_.arm(*this, now + options_.timeout_ns);
  }
  return result;
}

uint64_t Ring::flush(uint64_t now) {
  const std::lock_guard lock(submitting_);
  if (held_since_ == 0) return 0;
  const uint64_t due = held_since_ + options_.timeout_ns;
  if (now < due) return due;
  (void)submit_held(now);  // what goes wrong comes back as completions
  return 0;
}

// Notes one native completion. True when its operation is complete, which `cqe` then describes and
// whose slot is free again.
bool Ring::collect(const penstock_completion& completion, hf3fs_cqe& cqe) {
  const uint32_t index = slot_of(completion.user_data);
  if (index >= options_.entries || slots_[index].parts_left == 0) {
    log::error("usrbio: a completion for an operation that is not in flight: {:#x}",
               completion.user_data);
    return false;
  }
  Slot& slot = slots_[index];
  const front::Part part = front::part_at(slot.length, part_of(completion.user_data));
  if (part.length == 0) {
    slot.error = -EPROTO;
  } else if (completion.result < 0) {
    if (slot.error == 0) slot.error = completion.result;
  } else {
    const uint64_t bytes = static_cast<uint64_t>(completion.result);
    if (bytes < part.length) slot.end = std::min(slot.end, part.begin + bytes);
  }
  if (--slot.parts_left > 0) return false;
  cqe.index = static_cast<int32_t>(index);
  cqe.reserved = 0;
  cqe.result = slot.error != 0 ? slot.error : static_cast<int64_t>(slot.end);
  cqe.userdata = slot.userdata;
  free_.give(index);
  return true;
}

// False when the deadline passes first.
bool Ring::become_waiter(uint64_t deadline) {
  if (!waiting_.exchange(true, std::memory_order_seq_cst)) return true;
  if (deadline == 0) return false;
  std::unique_lock lock(waiters_);
  queued_.fetch_add(1, std::memory_order_seq_cst);
  const auto mine = [this] { return !waiting_.exchange(true, std::memory_order_seq_cst); };
  bool is_mine = true;
  if (deadline == PENSTOCK_FOREVER) {
    may_wait_.wait(lock, mine);
  } else {
    const auto time = std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(static_cast<int64_t>(deadline)));
    is_mine = may_wait_.wait_until(lock, time, mine);
  }
  queued_.fetch_sub(1, std::memory_order_relaxed);
  return is_mine;
}

void Ring::stop_waiting() {
  waiting_.store(false, std::memory_order_seq_cst);
  // Either this thread sees the next waiter in the queue, or that one sees that no thread waits.
  if (queued_.load(std::memory_order_seq_cst) == 0) return;
  const std::lock_guard lock(waiters_);
  may_wait_.notify_one();
}

int Ring::wait(hf3fs_cqe* cqes, uint32_t max, uint32_t min, const timespec* until) {
  const uint64_t deadline = min == 0 ? 0 : deadline_of(until);
  if (!become_waiter(deadline)) return 0;
  const int result = take(cqes, max, min, deadline);
  stop_waiting();
  return result;
}

int Ring::take(hf3fs_cqe* cqes, uint32_t max, uint32_t min, uint64_t deadline) {
  uint32_t filled = 0;
  int result = 0;
  while (filled < max) {
    penstock_completion completions[kCompletionBatch];
    const uint32_t room = std::min(max - filled, kCompletionBatch);
    const uint32_t wanted = std::min(room, min > filled ? min - filled : 0);
    result = session_.seen(
        penstock_lane_wait(lane_, completions, room, wanted, wanted == 0 ? 0 : deadline));
    if (result == -EINTR) continue;
    if (result < 0) break;
    const uint32_t taken = static_cast<uint32_t>(result);
    // Before the slots are free again: a thread that takes one must find room in the native ring,
    // too.
    parts_completed_.fetch_add(taken, std::memory_order_release);
    for (uint32_t i = 0; i < taken; ++i) {
      if (collect(completions[i], cqes[filled])) ++filled;
    }
    // Less than asked for: the time has come, or there is no more.
    if (taken < wanted || (filled >= min && taken < room)) break;
  }
  return filled > 0 || result >= 0 ? static_cast<int>(filled) : result;
}

}  // namespace penstock::usrbio
