// Single operations through a ring, beside fio on the same disk, and what they cost.
#pragma once

#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

Outcome<void> ring_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

// What the software costs where the disk costs next to nothing: a store on tmpfs.
Outcome<void> store_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
