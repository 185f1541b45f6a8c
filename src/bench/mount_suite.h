// The mount, side by side with libfuse's own passthrough example on the same disk.
#pragma once

#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

// Skipped with one line where nothing can be mounted.
Outcome<void> mount_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
