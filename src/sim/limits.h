// Bounds of simulations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::sim::limits {

// Far more turns of loops than any burst of work at one instant takes.
inline constexpr uint64_t kTurnsWithoutProgressMax = 20'000'000;

// What the deepest call of a node takes in builds with sanitizers, several times over; pages that
// are never touched cost nothing.
inline constexpr size_t kFiberStackBytes = 1024 * 1024;

}  // namespace penstock::sim::limits
