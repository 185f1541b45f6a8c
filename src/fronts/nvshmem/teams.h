// Teams by NVSHMEM's numbers, which are the group's own: kernels find them by them, too.
#pragma once

#include <cstdint>

#include "penstock/symm.h"

namespace penstock::nvshmem {

struct OnDevice;  // process.h

// Makes those that NVSHMEM has from the beginning. Together with all PEs.
Status make_first_teams(symm::Group& group);
void forget_teams();
// Once there is a heap in the GPU: which PEs share memory is known then. Together with all PEs.
Outcome<void> find_sharing(symm::Group& group, const symm::DeviceHeap& heap);
// Tells kernels of those.
Outcome<void> tell_teams(OnDevice& device);

// Null: there is none of that number here.
symm::Team* find_team(const char* call, int32_t team);

}  // namespace penstock::nvshmem
