// How a process that no launcher of ours started finds the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/base.h"

namespace penstock::job {

// What another launcher says in the environment.
struct OtherLauncher {
  uint32_t rank = 0;
  uint32_t size = 1;
  std::string job;  // a name that its other ranks have, too, and no other job of this user has
  bool one_node = true;
};

// Open MPI's, MPICH's and Slurm's, in this order. Nothing: none of them started this process.
// invalid_argument: what is there makes no sense.
Outcome<std::optional<OtherLauncher>> other_launcher();

}  // namespace penstock::job
