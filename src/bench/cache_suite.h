// Reads that hit the node cache, side by side with bare verified copies out of shared memory.
#pragma once

#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

Outcome<void> cache_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
