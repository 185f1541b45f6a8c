// Small reads beside a flood of large ones.
#pragma once

#include "../commands.h"
#include "report.h"

#include <vector>

namespace penstock::apps {

Outcome<void> fair_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::apps
