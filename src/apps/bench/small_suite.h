// Many small files: read by lists beside threads on ext4, imported beside `cp -r`.
#pragma once

#include "../commands.h"
#include "report.h"

#include <vector>

#include "penstock/base.h"

namespace penstock::apps {

Outcome<void> small_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::apps
