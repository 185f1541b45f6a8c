// Bounds of this front.
#pragma once

#include <chrono>

namespace penstock::nvshmem::limits {

// Of a job that a mistake of a program ends: EX_SOFTWARE, as fronts/shmem has it.
inline constexpr int kFaultExitCode = 70;

// What nvshmem_finalize() waits for PEs that have all come to it, and have only to say so.
inline constexpr std::chrono::seconds kToSeeOthersLeave{5};

// Between two looks at what kernels have reported: a job ends within a second of it.
inline constexpr std::chrono::milliseconds kBetweenLooks{50};

}  // namespace penstock::nvshmem::limits
