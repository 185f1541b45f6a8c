// What figures for Prometheus cost small reads.
#pragma once

#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

// 4 KiB reads of a store on tmpfs through the ring of a node of its own: without figures, with
// figures that are asked for once a second, without, and so on.
Outcome<void> metrics_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
