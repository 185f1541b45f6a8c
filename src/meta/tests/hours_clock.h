// A clock whose wall is where a test sets it.
#pragma once

#include <atomic>

#include "penstock/engine.h"

namespace penstock::meta {

inline constexpr int64_t kHourNanoseconds = int64_t{3600} * 1'000'000'000;

// Every call is a nanosecond later, as with TickingClock.
class HoursClock final : public engine::Clock {
 public:
  // 2026-11-28 08:00 UTC.
  static constexpr int64_t kFirstHour = 498'800;

  engine::Time now() const override { return engine::Time(engine::Duration(tick())); }
  engine::WallTime wall() const override {
    return {hour.load() * kHourNanoseconds + 1'000'000 + tick()};
  }
  std::atomic<int64_t> hour{kFirstHour};

 private:
  int64_t tick() const { return ticks_.fetch_add(1, std::memory_order_relaxed); }
  mutable std::atomic<int64_t> ticks_{0};
};

}  // namespace penstock::meta
