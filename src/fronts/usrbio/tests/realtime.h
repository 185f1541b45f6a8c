// Deadlines as USRBIO takes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace penstock::usrbio {

// A point of CLOCK_REALTIME, so much later than now.
inline timespec realtime_in(std::chrono::milliseconds delay) {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  const int64_t ns = time.tv_nsec + delay.count() % 1000 * 1'000'000;
  time.tv_sec += delay.count() / 1000 + ns / 1'000'000'000;
  time.tv_nsec = ns % 1'000'000'000;
  return time;
}

}  // namespace penstock::usrbio
