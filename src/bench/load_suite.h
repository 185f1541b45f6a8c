// Models: files in DRAM onto one GPU and several, over their own links and those of neighbours,
// side by side with bare copies over one link and with PyTorch.
#pragma once

#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

// Skipped with one line where there is no GPU; so are the lines that need more than there are.
Outcome<void> load_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
