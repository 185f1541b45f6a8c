// Waiting for what another thread or process brings about. How long that takes judges nothing: the
// deadline only ends what hangs.
#pragma once

#include <chrono>
#include <functional>

namespace penstock::test {

inline constexpr std::chrono::seconds kPatience{60};

// Looks again and again, and sleeps for `pause` between two looks; false when `patience` was up
// before the condition held. Looks once at least.
bool eventually(const std::function<bool()>& holds, std::chrono::nanoseconds patience = kPatience,
                std::chrono::nanoseconds pause = std::chrono::milliseconds(1));

}  // namespace penstock::test
