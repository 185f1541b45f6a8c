// What it costs programs of 3FS's interface to make and to give up memory, rings and descriptors.
#pragma once

#include <vector>

#include "penstock/base.h"
#include "penstock/bench.h"

namespace penstock::bench {

Outcome<void> usrbio_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
