// Random programs.
#pragma once

#include "operation.h"

namespace penstock::differential {

struct Wishes {
  size_t length = 0;  // operations
  bool several_users = false;
  uint32_t mounts = 1;      // over which operations are dealt out; what may differ then is left out
  uint64_t lose_every = 0;  // about so many operations a node is lost for a while; 0: never
};

// What a seed stands for. The same always.
Program program_of(uint64_t seed, const Wishes& wishes);

}  // namespace penstock::differential
