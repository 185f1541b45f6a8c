// What a check of symmetric memory has found, for people.
#pragma once

#include <string>

#include "penstock/bench.h"

namespace penstock::apps {

std::string text_of(const bench::SymmReport& report);
// Whether some of its memory is not reached by a way that should be there.
bool is_well(const bench::SymmReport& report);

}  // namespace penstock::apps
