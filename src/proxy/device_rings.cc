#include "penstock/proxy/device_rings.h"

#include <algorithm>
#include <sys/prctl.h>
#include <time.h>

#include "penstock/connection.h"

namespace penstock::proxy {

using engine::Time;

DeviceRings::DeviceRings(lanes::Session& session)
    : session_(session),
      random_(engine::system_seed()),
      loop_(engine::system_clock(), random_, *this, limits::kDeviceRingSpin),
      parker_(engine::system_clock()) {
  loop_.add(*this);
}

DeviceRings::~DeviceRings() {
  destroy_all();
  ASSERT(rings_.empty());
  loop_.remove(*this);
}

route::Transfers& DeviceRings::transfers() const {
  route::Transfers* const first = session_.transfers().first();
  ASSERT(first != nullptr);
  return *first;
}

// ---- the thread ----

engine::Duration sleep_after(engine::Duration idle) {
  return std::clamp<engine::Duration>(idle / limits::kDeviceRingSleepPart,
                                      limits::kDeviceRingSleepMin, limits::kDeviceRingSleepMax);
}

// With the mutex held.
Outcome<void> DeviceRings::start() {
  if (thread_.joinable()) return {};
  TRY_ASSIGN(thread_, start_thread("the thread of rings for kernels", [this] {
               // Sleeps are as long as they are meant to be, not 50 microseconds longer.
               ::prctl(PR_SET_TIMERSLACK, 1000);
               loop_.run();
             }));
  return {};
}

bool DeviceRings::poll() {
  bool worked = false;
  for (DeviceRing* const ring : served_) worked |= ring->serve();
  return worked;
}

bool DeviceRings::has_work() const {
  return std::any_of(served_.begin(), served_.end(),
                     [](const DeviceRing* ring) { return ring->has_work(); });
}

void DeviceRings::park(Time deadline) {
  const engine::Clock& clock = loop_.clock();
  const Time began = clock.now();
  while (!unparked_.exchange(false, std::memory_order_acquire) && !has_work()) {
    const Time now = clock.now();
    if (now >= deadline) return;
    if (now.time_since_epoch().count() < awake_until_.load(std::memory_order_relaxed)) {
      ring::pause();
      continue;
    }
    // Only kernels ask without waking the thread; without rings there are none.
    parker_.park(served_.empty() ? deadline : std::min(deadline, now + sleep_after(now - began)));
  }
}

void DeviceRings::unpark() {
  unparked_.store(true, std::memory_order_release);
  parker_.unpark();
}

void DeviceRings::announce() {
  const Time until = loop_.clock().now() + limits::kDeviceRingAwake;
  awake_until_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
  // Without setting unparked_: there is nothing for the loop yet.
  parker_.unpark();
}

uint64_t DeviceRings::thread_nanoseconds() {
  const std::lock_guard lock(mutex_);
  clockid_t clock{};
  timespec used{};
  if (!thread_.joinable() || ::pthread_getcpuclockid(thread_.native_handle(), &clock) != 0 ||
      ::clock_gettime(clock, &used) != 0) {
    return 0;
  }
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

// ---- rings ----

Outcome<DeviceRing*> DeviceRings::make(engine::DeviceMemory& devices, connection::Region& region,
                                       uint32_t entries,
                                       const DeviceRing::MakeService& make_service) {
  {
    const std::lock_guard lock(mutex_);
    if (rings_.size() >= limits::kDeviceRingsMax) {
      return Failure{Code::busy, fmt::format("create device ring: this session has {}, which is "
                                             "the limit",
                                             rings_.size())};
    }
    TRY(start());
  }
  // Before there is a ring: while the driver unpins memory it would not copy for a kernel that
  // waits.
  if (!session_.cache().hold_views()) {
    return Failure{Code::busy,
                   "create device ring: memory of an agent that is gone is being unpinned, which "
                   "waits for the kernels that run (try again when they have ended)"};
  }
  Outcome<std::unique_ptr<DeviceRing>> ring =
      DeviceRing::make(*this, region, entries, memories_, devices, make_service);
  if (!ring) {
    session_.cache().let_go_of_views();
    return Unexpected(ring.error());
  }
  DeviceRing* const raw = ring->get();
  {
    const std::lock_guard lock(mutex_);
    rings_.insert(std::move(*ring));
    open_.insert(raw);
  }
  (void)engine::thread_caller().call(loop_, [&](engine::Op& done) {
    served_.push_back(raw);
    loop_.complete(done, Code::ok);
  });
  return raw;
}

bool DeviceRings::begin_ending(DeviceRing& ring) {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return !ending_.contains(&ring); });
  const bool lives = std::any_of(rings_.begin(), rings_.end(),
                                 [&](const auto& one) { return one.get() == &ring; });
  if (lives) ending_.insert(&ring);
  return lives;
}

void DeviceRings::done_ending(const DeviceRing& ring) {
  const std::lock_guard lock(mutex_);
  ending_.erase(&ring);
  ended_.notify_all();
}

void DeviceRings::stop_serving(DeviceRing& ring) {
  {
    const std::lock_guard lock(mutex_);
    if (open_.erase(&ring) == 0) return;
  }
  // First of all: kernels see it themselves and give up.
  ring.close();
  (void)engine::thread_caller().call(loop_, [&](engine::Op& done) {
    std::erase(served_, &ring);
    loop_.complete(done, Code::ok);
  });
  ring.end();
}

void DeviceRings::close(DeviceRing& ring) {
  if (!begin_ending(ring)) return;
  stop_serving(ring);
  done_ending(ring);
}

// Whether kernels have left it: none waits, and none that was between two waits came again.
bool DeviceRings::drain(DeviceRing& ring, Time deadline) {
  for (Time quiet_since = loop_.clock().now(), now = quiet_since;; now = loop_.clock().now()) {
    if (ring.outstanding() > 0) {
      quiet_since = now;
    } else if (now - quiet_since >= limits::kDeviceRingQuiet) {
      return true;
    }
    if (now >= deadline) return false;
    std::this_thread::sleep_for(limits::kDeviceRingSleepMax);
  }
}

std::unique_ptr<DeviceRing> DeviceRings::take_out(const DeviceRing& ring) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(rings_.begin(), rings_.end(),
                                  [&](const auto& one) { return one.get() == &ring; });
  // Only the thread that ends a ring takes it out, once.
  ASSERT(found != rings_.end() && !open_.contains(&ring));
  return std::move(rings_.extract(found).value());
}

void DeviceRings::destroy(DeviceRing& ring) {
  if (!begin_ending(ring)) return;
  stop_serving(ring);
  if (drain(ring, loop_.clock().now() + limits::kDeviceRingDrain)) {
    // Without the lock: the driver may wait for kernels that use other rings.
    take_out(ring).reset();
    session_.cache().let_go_of_views();
  } else {
    log::warning(
        "a device ring was destroyed with {} requests that no kernel has waited for: its "
        "memory stays until the session is closed",
        ring.outstanding());
  }
  done_ending(ring);
}

void DeviceRings::destroy_all() {
  const Time deadline = loop_.clock().now() + limits::kDeviceRingDrain;
  while (!rings_.empty()) {
    const std::unique_ptr<DeviceRing>& first = *rings_.begin();
    stop_serving(*first);
    std::unique_ptr<DeviceRing> ring = take_out(*first);
    // Rings behind one that took all the time still get what a ring needs that no kernel uses.
    if (drain(*ring, std::max(deadline, loop_.clock().now() + 2 * limits::kDeviceRingQuiet))) {
      ring.reset();
      session_.cache().let_go_of_views();
      continue;
    }
    // A kernel may still touch the ring: its memory is lost, as taking it away would break the
    // GPU's context.
    log::warning(
        "a session was closed while a kernel used one of its device rings: {} KiB of "
        "pinned memory and its region stay",
        ring->host_bytes() / kKiB);
    connection::leave_behind(std::move(ring));
  }
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
}

}  // namespace penstock::proxy
