// What the person who runs a test may set: PENSTOCK_SEED and the like.
#pragma once

#include <cstdint>

namespace penstock::test {

// The number in an environment variable (0x... too); `otherwise` where it is not set, or empty.
uint64_t number_from(const char* variable, uint64_t otherwise);

}  // namespace penstock::test
