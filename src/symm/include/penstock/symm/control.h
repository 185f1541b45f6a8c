// What PEs write into one another's memory to wait for each other: the first bytes of each PE's
// heap. All PEs of a group run the same build of this library (join() sees to it), so the layout is
// no format.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace penstock::symm {

inline constexpr uint32_t kTeamsMax = 256;
// Rounds of a dissemination barrier: each doubles how far a PE has been heard of, up to 65,536 PEs.
inline constexpr uint32_t kRoundsMax = 16;
inline constexpr uint32_t kScratchWords = 16;

// A word with a cache line of its own: a PE spins on it, another writes it.
struct alignas(64) Flag {
  uint64_t value = 0;
};

// What a PE brings to a small collective operation (small_collectives.h): with its first bytes in
// one cache line with the number that says that they are there.
inline constexpr uint32_t kPostedBytes = 1024 + 48;
struct alignas(64) Posted {
  uint64_t number = 0;  // of the operation; written last
  uint64_t bytes = 0;
  alignas(16) std::byte data[kPostedBytes];
};

// A PE's part in one team. Written by the team's other PEs, but for `scratch`, `begun` and
// `posted`, which its owner writes and others read.
struct TeamControl {
  Flag rounds[kRoundsMax];  // the number of the last sync in which the round's word has come
  Flag arrivals;            // of the first PE of the team: how many arrived, over all syncs
  Flag released;            // of the first PE: the last sync in which all had arrived
  alignas(64) uint64_t scratch[kScratchWords];
  Flag begun;        // the last small operation in which this PE takes part: all before are over
  Posted posted[2];  // of operations with even numbers and with odd ones
};

struct Control {
  TeamControl teams[kTeamsMax];
};

// A team's number is free where its bit is set.
inline constexpr uint32_t kTeamWords = kTeamsMax / 64;
static_assert(kTeamWords <= kScratchWords && sizeof(Flag) == 64);
static_assert(sizeof(Posted) == 64 + kPostedBytes - 48 && kPostedBytes % 64 == 48);
static_assert(sizeof(Control) <= (size_t{1} << 20), "a heap begins with it, in each PE");

}  // namespace penstock::symm
