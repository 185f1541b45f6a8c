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

// A PE's part in one team. Written by the team's other PEs, but for `scratch`, which its owner
// writes and others read.
struct TeamControl {
  Flag rounds[kRoundsMax];  // the number of the last sync in which the round's word has come
  Flag arrivals;            // of the first PE of the team: how many arrived, over all syncs
  Flag released;            // of the first PE: the last sync in which all had arrived
  alignas(64) uint64_t scratch[kScratchWords];
};

struct Control {
  TeamControl teams[kTeamsMax];
};

// A team's number is free where its bit is set.
inline constexpr uint32_t kTeamWords = kTeamsMax / 64;
static_assert(kTeamWords <= kScratchWords && sizeof(Flag) == 64);
static_assert(sizeof(Control) <= (size_t{1} << 20), "a heap begins with it, in each PE");

}  // namespace penstock::symm
