// Many small files: read by lists beside threads on ext4, imported beside `cp -r`, verified beside
// `diff -r`.
#pragma once

#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/bench.h"

namespace penstock::bench {

// The row of that name ("small.import.4k", ...), or all of them ("small").
Outcome<void> small_suite(const BenchOptions& options, const std::string& name,
                          std::vector<BenchLine>* lines);

}  // namespace penstock::bench
