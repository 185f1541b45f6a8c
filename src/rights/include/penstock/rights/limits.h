// Bounds of this library, each with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::rights::limits {

// Ranges of users, and of groups: what a person writes on one line.
inline constexpr size_t kRangesMax = 16;
// Of a path that is a node's root: it stands in a record of the map, and in lists of tokens.
inline constexpr size_t kSubtreeBytesMax = 1024;
// (uid_t)-1 is nobody's: Linux takes it for "no change".
inline constexpr uint32_t kIdMost = UINT32_MAX - 1;

}  // namespace penstock::rights::limits
