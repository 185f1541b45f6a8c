// What a measurement over loopback yields.
#pragma once

#include <chrono>
#include <pthread.h>

#include "penstock/engine.h"

namespace penstock::loopback {

inline engine::Time now() {
  return engine::system_clock().now();
}
inline double seconds_since(engine::Time start) {
  return std::chrono::duration<double>(now() - start).count();
}

// Of a thread, in seconds.
double processor_time(pthread_t thread);

struct Figures {
  double rate = 0;   // per second
  double calls = 0;  // system calls for each, of both sides: to submit, and to wait
  // Of processors, in microseconds for each: of the side that asks, and of the one that serves.
  double near_us = 0;
  double far_us = 0;
};

}  // namespace penstock::loopback
