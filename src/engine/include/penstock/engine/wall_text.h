// Times as people read them.
#pragma once

#include <string>

#include "penstock/engine/clock.h"

namespace penstock::engine {

// "2026-11-27 10:05:03 UTC".
std::string text_of(WallTime time);

}  // namespace penstock::engine
