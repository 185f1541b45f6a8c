// Operations of a lane on GPU memory.
#pragma once

#include "lane.h"

#include "penstock/route.h"

namespace penstock::api {

// One for each slot of a lane that uses GPU memory: a transfer, or a list of small reads.
struct DeviceOperation {
  struct Single : route::Transfer {
    DeviceOperation* operation = nullptr;
  };
  struct List : route::ListTransfer {
    DeviceOperation* operation = nullptr;
  };

  Single single;
  List list;
  bool is_list = false;
  Lane* lane = nullptr;
  Region* region = nullptr;  // as long as it is in progress
  uint32_t slot = 0;
  // How it ended.
  int64_t result = 0;
  engine::Route route = engine::Route::none;
};

}  // namespace penstock::api
