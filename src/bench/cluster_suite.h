// Three nodes on this machine: what copies cost, and reads of what other nodes have.
#pragma once

#include <vector>

#include "penstock/base.h"
#include "penstock/bench.h"

namespace penstock::bench {

// All nodes share the disk and the processors. The part for GPUs is skipped with one line where
// there is none.
Outcome<void> cluster_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
