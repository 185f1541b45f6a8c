// Operations of a lane on GPU memory.
#pragma once

#include "lane.h"

#include "penstock/route.h"

namespace penstock::api {

// One for each slot of a lane that uses GPU memory.
struct DeviceTransfer : route::Transfer {
  Lane* lane = nullptr;
  Region* region = nullptr;
  uint32_t slot = 0;
};

}  // namespace penstock::api
