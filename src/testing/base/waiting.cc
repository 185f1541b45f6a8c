#include "penstock/testing/waiting.h"

#include <thread>

namespace penstock::test {

bool eventually(const std::function<bool()>& holds, std::chrono::nanoseconds patience,
                std::chrono::nanoseconds pause) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

}  // namespace penstock::test
