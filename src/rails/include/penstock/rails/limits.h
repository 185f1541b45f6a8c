// For how long things are waited for, each with its reason.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::rails::limits {

// From asking for a queue pair to having one. The other side's kernel may resolve an address
// meanwhile, which takes up to a second.
inline constexpr std::chrono::seconds kIntroduceTime{5};

// A watch is answered after so long, and then another begins: so who calls has to prove itself
// anew when its certificate has ended.
inline constexpr std::chrono::seconds kWatchTime{30};
// And its caller takes the other side for lost after so long.
inline constexpr std::chrono::seconds kWatchMax{45};

// A node that has queue pairs here and no watch for so long loses them: time for the next watch, or
// the first, to come.
inline constexpr std::chrono::seconds kUnwatchedMax{10};

// Watches of one node: one for each of its loops.
inline constexpr uint32_t kWatchesOfNode = 64;
// Of all nodes, and what is asked and not yet answered.
inline constexpr uint32_t kWatchesMax = 8192;
inline constexpr uint32_t kAsksMax = 256;

// How often a loop looks after its devices and the nodes that call it.
inline constexpr std::chrono::seconds kLookEvery{1};

// A device that failed, or could not be opened, is tried again after so long.
inline constexpr std::chrono::seconds kReopenAfter{10};

// Words of a refusal.
inline constexpr uint32_t kReasonBytesMax = 240;

static_assert(kWatchTime < kWatchMax && kUnwatchedMax < kWatchTime);

}  // namespace penstock::rails::limits
