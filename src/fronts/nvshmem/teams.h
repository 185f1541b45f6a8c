// Teams by NVSHMEM's numbers, which are the group's own: kernels find them by them, too.
#pragma once

#include <cstdint>

#include "penstock/symm.h"

namespace penstock::nvshmem {

struct OnDevice;  // process.h

// Makes those that NVSHMEM has from the beginning. Together with all PEs.
Status make_first_teams(symm::Group& group);
void forget_teams();
// Tells kernels of those, once there is a heap in the GPU.
Outcome<void> tell_teams(OnDevice& device);

// Null: there is none of that number here.
symm::Team* find_team(const char* call, int32_t team);

}  // namespace penstock::nvshmem
