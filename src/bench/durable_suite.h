// Durable writes: each on stable storage when it ends, beside fio with O_DSYNC.
#pragma once

#include <vector>

#include "penstock/base.h"
#include "penstock/bench.h"

namespace penstock::bench {

Outcome<void> durable_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
