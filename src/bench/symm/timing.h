// How long calls take that are too short to be timed one by one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/engine.h"

namespace penstock::bench {

// A call's status with words.
inline Outcome<void> told(Status status) {
  if (!status.ok()) return Failure{status, "symmetric memory: a call has failed"};
  return {};
}

// Seconds of one of `calls`: `batch(calls)` makes them, and returns when they have had their
// effect.
template <class Batch>
Outcome<double> seconds_per_call(uint64_t calls, Batch&& batch) {
  const engine::Clock& clock = engine::system_clock();
  const engine::Time began = clock.now();
  TRY(told(batch(calls)));
  const std::chrono::duration<double> took = clock.now() - began;
  return std::max(took.count(), 1e-9) / static_cast<double>(calls);
}

// How many calls take about so long.
template <class Batch>
Outcome<uint64_t> calls_in(double seconds, Batch&& batch) {
  constexpr double kEnough = 0.1;  // of the time: more would not be guessed better
  constexpr uint64_t kMost = uint64_t{1} << 28;
  uint64_t calls = 1;
  while (true) {
    TRY_ASSIGN(const double each, seconds_per_call(calls, batch));
    const double took = each * static_cast<double>(calls);
    if (took >= seconds * kEnough || calls >= kMost) {
      return std::clamp(static_cast<uint64_t>(seconds / each), uint64_t{1}, kMost);
    }
    calls *= 4;
  }
}

}  // namespace penstock::bench
