// GPU memory: disk and node cache to GPU, side by side with bare copies and a bare gather kernel.
#pragma once

#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

// Skipped with one line where there is no GPU.
Outcome<void> gpu_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
