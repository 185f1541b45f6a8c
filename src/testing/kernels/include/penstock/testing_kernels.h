// Threads of a test that play GPU kernels: the device code of rings and mailboxes runs on the host.
#pragma once

#include <chrono>
#include <thread>

#include "penstock/ring.h"

namespace penstock::test {

inline constexpr uint64_t kMillisecond = 1'000'000;  // in what kernels count: nanoseconds
inline constexpr uint64_t kSecond = 1000 * kMillisecond;

// Gives kernels that threads play a clock and a way to sleep; before the first of them runs.
inline void play_kernels() {
  device::host_world = {[] {
                          const auto now = std::chrono::steady_clock::now().time_since_epoch();
                          return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
                        },
                        [](uint32_t nanoseconds) {
                          std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
                        }};
}

}  // namespace penstock::test
