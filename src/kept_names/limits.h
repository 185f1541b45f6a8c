// Bounds of this library.
#pragma once

#include <chrono>
#include <cstddef>

#include "penstock/engine.h"

namespace penstock::kept_names::limits {

// As Linux bounds them (NAME_MAX, PATH_MAX): longer ones Meta refuses.
inline constexpr size_t kNameBytesMax = 255;
inline constexpr size_t kPathBytesMax = 4095;

// Times of access are recorded without telling anybody: another node finds one that old at most.
inline constexpr engine::Duration kAccessTimeAge = std::chrono::seconds(10);
// What was not given, or was taken away, is asked for again after that: others are changing it.
inline constexpr engine::Duration kWantAgain = std::chrono::seconds(1);

}  // namespace penstock::kept_names::limits
