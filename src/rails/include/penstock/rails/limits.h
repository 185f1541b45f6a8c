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
inline constexpr std::chrono::seconds kWatchTime{10};
// And its caller takes the other side for lost after so long.
inline constexpr std::chrono::seconds kWatchMax{25};

// Who has queue pairs here and has begun no watch for so long loses them: time for one watch, and
// for the next to come.
inline constexpr std::chrono::seconds kUnwatchedMax{20};

// Watches of one node: one for each of its loops, and those of connections that have just ended.
inline constexpr uint32_t kWatchesOfNode = 256;
// Of all nodes: they hold calls of the loop that serves them, which serves others, too.
inline constexpr uint32_t kWatchesMax = 2048;
// What is asked and not yet answered.
inline constexpr uint32_t kAsksMax = 256;

// A node whose queue pair could not be joined is refused for so long, where trying took longer than
// that: joining may keep the loop for as long as the kernel asks for an address. What fails at once
// keeps nobody, and a device that has just gone is no fault of who asks.
inline constexpr std::chrono::seconds kRefuseTime{30};
inline constexpr std::chrono::milliseconds kJoinTime{10};

// How often a loop looks after its devices and the nodes that call it.
inline constexpr std::chrono::seconds kLookEvery{1};

// A device that failed, or could not be opened, is tried again after so long.
inline constexpr std::chrono::seconds kReopenAfter{10};

// Of links between GPUs and cards (decision 0079). NVLink: what two H200 have shown. A card of
// which the kernel does not say how fast it is: 400 Gbit/s. The shares are assumed.
inline constexpr double kNvlinkBytesPerSecond = 362e9;
inline constexpr double kCardBytesPerSecond = 50e9;
inline constexpr double kShareThroughProcessor = 0.7;
inline constexpr double kShareBehindProcessor = 0.5;
inline constexpr double kShareBetweenRails = 0.5;
// Ways are compared by the time for so many bytes: a piece, as movers move them.
inline constexpr uint64_t kRailPieceBytes = uint64_t{4} << 20;

// Words of a refusal.
inline constexpr uint32_t kReasonBytesMax = 240;

static_assert(kWatchTime < kWatchMax && kWatchTime < kUnwatchedMax);

}  // namespace penstock::rails::limits
