// Random programs.
#pragma once

#include "operation.h"

namespace penstock::differential {

// What a seed stands for: `length` operations of one user or, with `several_users`, of several.
// The same always.
Program program_of(uint64_t seed, bool several_users, size_t length);

}  // namespace penstock::differential
