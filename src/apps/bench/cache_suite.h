// Reads that hit the node cache, side by side with bare verified copies out of shared memory.
#pragma once

#include "../commands.h"
#include "report.h"

#include <vector>

namespace penstock::apps {

Outcome<void> cache_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::apps
