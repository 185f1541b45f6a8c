// What a node did between two looks at its status.
#pragma once

#include <string>

#include "penstock/json.h"

namespace penstock::apps {

// The rates, latencies and sessions of the time between two status documents of one node, which
// lies `seconds` apart: for machines, and for people as one screen.
Json difference_of(const Json& before, const Json& after, double seconds);
std::string screen_of(const Json& difference);

}  // namespace penstock::apps
