// Joining by what the program has begun already: an MPI communicator, or another OpenSHMEM. This
// library is linked with neither; it finds their functions in the process.
#pragma once

#include <chrono>
#include <memory>

#include "penstock/job.h"

namespace penstock::nvshmem {

// Where the processes of a job meet by a unique id, on the interfaces that the environment names.
Outcome<std::unique_ptr<job::Gate>> open_gate();

// A job of a communicator's processes, as many as it has and in its order; which may be a part of
// what a launcher has started. `communicator` points to the program's MPI_Comm. Together with all
// of it. not_found: there is no MPI in this process.
Outcome<std::unique_ptr<job::Member>> join_by_mpi(const void* communicator);

// A job of the PEs of an OpenSHMEM that has begun in this process. Together with all of them.
Outcome<std::unique_ptr<job::Member>> join_by_shmem();

// As long as NVSHMEM waits for the other PEs.
inline constexpr std::chrono::seconds kTimeToJoin{120};

}  // namespace penstock::nvshmem
