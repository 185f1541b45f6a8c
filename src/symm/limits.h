// Bounds of symmetric memory, with the reason for each.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::symm::limits {

// PEs of a group: four thousand windows of a terabyte fit into the addresses of a process.
inline constexpr uint32_t kPesMax = 4096;

// Heaps and windows are multiples of it: a huge page, and what GPUs map at once.
inline constexpr uint64_t kGranule = uint64_t{2} << 20;

// Addresses that the windows of all PEs may take: half of what a process has.
inline constexpr uint64_t kWindowsBytesMax = uint64_t{1} << 46;

// Addresses behind the heap of a GPU, for memory that the program itself has made: more than one GPU
// has.
inline constexpr uint64_t kAdoptedBytesMax = uint64_t{256} << 30;

// Of a heap where nobody says more: the machine's memory divided by the PEs of the node, at least
// this.
inline constexpr uint64_t kHeapBytesMin = uint64_t{64} << 20;

// How long a PE waits for the others when a group is made.
inline constexpr std::chrono::seconds kJoinTime{60};

// How long a wait goes on once a PE of the group has left by itself. One that leaves a sync before
// the others is no mistake: what they wait for is on its way, at the speed at which they run.
inline constexpr std::chrono::seconds kAfterLeave{10};

}  // namespace penstock::symm::limits
