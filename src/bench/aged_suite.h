// Benchmarks of a file whose blocks were all overwritten at random: at once, beside the background
// work that brings them together again, and afterwards.
#pragma once

#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

Outcome<void> aged_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
