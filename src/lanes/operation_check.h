// Checks an operation before it is taken into a lane.
#pragma once

#include "penstock/lanes/operation.h"
#include "penstock/lanes/session.h"

namespace penstock::lanes {

// 0, or a negative errno with its sentence for the calling thread. Fills in what the agent is to be
// told, but for the slot. `device_region`: of GPU memory, where it is one.
// `place`: where checksums of a region for_cards go.
int check_io(const Session& session, const Io& io, const ChecksumPlace& place,
             ring::Submission* entry, connection::Region** device_region);
int check_gather(const Session& session, const Gather& gather);

}  // namespace penstock::lanes
