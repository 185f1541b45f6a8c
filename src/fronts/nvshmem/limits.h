// Bounds of this front.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::nvshmem::limits {

// Of a job that a mistake of a program ends: EX_SOFTWARE, as fronts/shmem has it.
inline constexpr int kFaultExitCode = 70;

// Of memory on the heap: heaps stand at multiples of what GPUs map at once (symm's granule).
inline constexpr uint64_t kAlignmentMax = uint64_t{2} << 20;

// What nvshmem_finalize() waits for PEs that have all come to it, and have only to say so.
inline constexpr std::chrono::seconds kToSeeOthersLeave{5};

// Between two looks at what kernels have reported: a job ends within a second of it.
inline constexpr std::chrono::milliseconds kBetweenLooks{50};

// Unique ids of teams that a PE has made and whose PEs have not all met; and PEs of such a team: as
// many as kernels reach. The tables of all take 70 KiB of each PE's memory.
inline constexpr uint32_t kTeamMeetingsMax = 16;
inline constexpr uint32_t kTeamMeetingPesMax = 64;

// What PEs of a team wait for one another that have a unique id.
inline constexpr std::chrono::seconds kToMeet{120};

}  // namespace penstock::nvshmem::limits
