// Bounds of this library that its users see.
#pragma once

#include <cstddef>

namespace penstock::locks::limits {

// Some 100 bytes each. Beyond: ENOLCK.
inline constexpr size_t kLocksOfFileMax = 65'536;
inline constexpr size_t kLocksOfAgentMax = 262'144;
// Requests of one agent that wait: as many as it may have waiting for holds.
inline constexpr size_t kWaitingOfAgentMax = 65'536;
// Locks that are looked at in search of a deadlock. A ring of owners is as long as it has nodes'
// processes; what is not found so far is not called one.
inline constexpr size_t kDeadlockStepsMax = 16'384;

}  // namespace penstock::locks::limits
