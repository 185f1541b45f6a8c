// Bounds of this front, with the reason for each.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::shmem::limits {

// Contexts that a PE has at a time: one for each thread of the largest machines, many times over.
inline constexpr uint32_t kContextsMax = 65'536;

// Teams that a PE is in at a time: more than a group has (symm: 256).
inline constexpr uint32_t kTeamsMax = 1'024;

// What a job ends with after a misuse that was found: sysexits.h calls it an error in the program.
inline constexpr int kFaultExitCode = 70;

// How long PENSTOCK_CHECK waits for a PE, where PENSTOCK_CHECK_SECONDS says nothing: longer than a
// step of a program takes, and shorter than who waits for the job.
inline constexpr std::chrono::seconds kCheckTime{60};

// Bytes of a prefix sum that are worked on between two syncs: they are held twice, out of the
// program's sight.
inline constexpr uint64_t kScanBytes = uint64_t{64} << 10;

}  // namespace penstock::shmem::limits
