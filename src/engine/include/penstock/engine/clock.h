// Time as protocol code sees it.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::engine {

using Duration = std::chrono::nanoseconds;

// The tag of monotonic time points; CLOCK_MONOTONIC on a real machine. It has no now(): time comes
// from a Clock.
struct Monotonic {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<Monotonic>;
  static constexpr bool is_steady = true;
};
using Time = Monotonic::time_point;
inline constexpr Time kNever = Time::max();

// Nanoseconds since 1970-01-01 UTC, for the timestamps of files.
struct WallTime {
  int64_t nanoseconds = 0;
  friend constexpr auto operator<=>(WallTime, WallTime) = default;
};

// Thread safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
  // What leases count on: it goes on while the machine is suspended, as those who wait for the end
  // of a lease do. CLOCK_BOOTTIME on a real machine. Not to be compared with now().
  virtual Time lease_now() const { return now(); }
  virtual WallTime wall() const = 0;
};

// The machine's own clock; lives for ever.
Clock& system_clock();

}  // namespace penstock::engine
