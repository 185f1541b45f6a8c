// What it costs programs of 3FS's interface to make and to give up memory, rings and descriptors.
#pragma once

#include "../commands.h"
#include "report.h"

#include <vector>

#include "penstock/base.h"

namespace penstock::apps {

Outcome<void> usrbio_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::apps
