// Small reads beside a flood of large ones.
#pragma once

#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

Outcome<void> fair_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
