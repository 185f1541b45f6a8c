#include "penstock/lanes/lane_events.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <utility>

#include "penstock/engine.h"
#include "penstock/lanes/lane.h"
#include "penstock/ring.h"

namespace penstock::lanes {

Outcome<std::unique_ptr<LaneEvents>> LaneEvents::start(Lane& lane) {
  std::unique_ptr<LaneEvents> made(new LaneEvents(lane));
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) {
    const int error = errno;
    return Failure{Status::from_errno(error),
                   fmt::format("descriptor of a lane: cannot be made: {}", std::strerror(error))};
  }
  // A forked child has no completions to wait for.
  made->event_ = connection::ParentsFd(std::move(event));
  TRY_ASSIGN(made->thread_,
             start_thread("the thread that watches a lane", [raw = made.get()] { raw->run(); }));
  return made;
}

LaneEvents::~LaneEvents() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true, std::memory_order_seq_cst);
    changed_.notify_one();
  }
  lane_.rouse();
  if (thread_.joinable()) thread_.join();
}

// With the mutex held.
void LaneEvents::make_readable() {
  if (!std::exchange(readable_, true)) ::eventfd_write(event_.get(), 1);
}

void LaneEvents::ready() {
  const std::lock_guard lock(mutex_);
  make_readable();
}

void LaneEvents::unready() {
  const std::lock_guard lock(mutex_);
  eventfd_t count = 0;
  if (std::exchange(readable_, false)) ::eventfd_read(event_.get(), &count);
  if (std::exchange(watching_, true)) return;
  changed_.notify_one();
}

void LaneEvents::begin_sleep() {
  const std::lock_guard lock(mutex_);
  ASSERT(!sleeping_);
  sleeping_ = true;
}

void LaneEvents::sleep(uint64_t deadline) {
  wait_for_descriptor(deadline);
  const std::lock_guard lock(mutex_);
  ASSERT(sleeping_);
  sleeping_ = false;
}

void LaneEvents::wait_for_descriptor(uint64_t deadline) const {
  pollfd readable{event_.get(), POLLIN, 0};
  if (deadline == ring::kForever) {
    (void)::poll(&readable, 1, -1);
    return;
  }
  constexpr uint64_t kSecond = 1'000'000'000;
  const auto now = static_cast<uint64_t>(engine::system_clock().now().time_since_epoch().count());
  const uint64_t left = deadline > now ? deadline - now : 0;
  const timespec time{static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
  (void)::ppoll(&readable, 1, &time, nullptr);
}

void LaneEvents::run() {
  ASSERT(event_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return watching_ || stop_.load(std::memory_order_relaxed); });
    if (stop_.load(std::memory_order_relaxed)) return;
    lock.unlock();
    const bool found = lane_.watch(stop_);
    lock.lock();
    if (!found && !sleeping_) continue;
    watching_ = false;
    make_readable();
  }
}

}  // namespace penstock::lanes
