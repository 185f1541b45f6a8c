// The machine's own clock and seed, and what needs no more than a futex.
#include <linux/futex.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "penstock/engine.h"

namespace penstock::engine {
namespace {

int64_t read_clock(clockid_t id) {
  timespec value{};
  ::clock_gettime(id, &value);
  return static_cast<int64_t>(value.tv_sec) * 1'000'000'000 + value.tv_nsec;
}

class SystemClock final : public Clock {
 public:
  Time now() const override { return Time(Duration(read_clock(CLOCK_MONOTONIC))); }
  Time lease_now() const override { return Time(Duration(read_clock(CLOCK_BOOTTIME))); }
  WallTime wall() const override { return {read_clock(CLOCK_REALTIME)}; }
};

}  // namespace

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

uint64_t system_seed() {
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) != sizeof seed) {
    seed = mix64(static_cast<uint64_t>(read_clock(CLOCK_MONOTONIC)));
  }
  return seed;
}

SeededRandom::SeededRandom(uint64_t seed) {
  for (uint64_t& word : state_) word = mix64(seed++);
}

uint64_t SeededRandom::next() {
  const auto rotate = [](uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
  const uint64_t result = rotate(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate(state_[3], 45);
  return result;
}

void FutexParker::park(Time deadline) {
  // Acquire pairs with the release in unpark().
  while (signalled_.exchange(0, std::memory_order_acquire) == 0) {
    timespec until{};
    const timespec* limit = nullptr;
    if (deadline != kNever) {
      const int64_t nanoseconds = deadline.time_since_epoch().count();
      until = {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
      limit = &until;
    }
    // FUTEX_WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC.
    ::syscall(SYS_futex, &signalled_, FUTEX_WAIT_BITSET_PRIVATE, 0, limit, nullptr,
              FUTEX_BITSET_MATCH_ANY);
    if (deadline != kNever && clock_.now() >= deadline) return;
  }
}

void FutexParker::unpark() {
  if (signalled_.exchange(1, std::memory_order_release) == 0) {
    ::syscall(SYS_futex, &signalled_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}

const char* route_name(Route route) {
  switch (route) {
    case Route::none:
      return "none";
    case Route::hole:
      return "hole";
    case Route::disk_direct:
      return "disk-direct";
    case Route::disk_staged:
      return "disk-staged";
    case Route::disk_page_cache:
      return "disk-page-cache";
    case Route::disk_threads:
      return "disk-threads";
    case Route::cache:
      return "cache";
    case Route::device_peer:
      return "device-peer";
    case Route::device_cache:
      return "device-cache";
    case Route::device_gather:
      return "device-gather";
    case Route::device_mapped:
      return "device-mapped";
    case Route::device_slots:
      return "device-slots";
    case Route::device_network:
      return "device-network";
  }
  return "unknown";
}

}  // namespace penstock::engine
