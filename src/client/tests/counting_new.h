// Counts what this program allocates. In a file of its own, so that the compiler does not see
// through the replaced operators.
#pragma once

#include <cstdint>

namespace penstock::client {

uint64_t allocations();

}  // namespace penstock::client
