// Bounds of this library, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>

namespace penstock::engine::limits {

// The same warning about clients or peers is written once in so long, for so many causes at a time.
inline constexpr std::chrono::minutes kLogEvery{1};
inline constexpr size_t kLogCausesMax = 256;

}  // namespace penstock::engine::limits
