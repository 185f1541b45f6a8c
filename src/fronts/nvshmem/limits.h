// Bounds of this front.
#pragma once

namespace penstock::nvshmem::limits {

// Of a job that a mistake of a program ends: EX_SOFTWARE, as fronts/shmem has it.
inline constexpr int kFaultExitCode = 70;

}  // namespace penstock::nvshmem::limits
