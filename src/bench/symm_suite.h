// Symmetric memory between PEs of a job: puts, gets, words, signals, and what all do together.
#pragma once

#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

// On hosts beside memcpy into the memory of another process, to other nodes beside a bare socket,
// on GPUs by kernels beside copy engines. In a job its processes are the PEs, and rank 0 has the
// lines; without one, PEs are started for it.
Outcome<void> symm_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
