// Durable writes: each on stable storage when it ends, beside fio with O_DSYNC.
#pragma once

#include "../commands.h"
#include "report.h"

#include <vector>

#include "penstock/base.h"

namespace penstock::apps {

Outcome<void> durable_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::apps
