// The mount, side by side with libfuse's own passthrough example on the same disk.
#pragma once

#include "../commands.h"
#include "report.h"

#include <vector>

namespace penstock::apps {

// Skipped with one line where nothing can be mounted.
Outcome<void> mount_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::apps
