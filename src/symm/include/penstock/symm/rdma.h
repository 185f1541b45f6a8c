// Whether PEs of other nodes are reached by RDMA.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/base.h"

namespace penstock::symm {

struct RdmaChoice {
  enum class Use : uint8_t {
    automatic,  // where both have a device, else TCP
    off,
    required,  // who is not reached by it is not reached
  };
  Use use = Use::automatic;
  std::string device = {};  // empty: the first that can be used. One that is named must be there
};

// What PENSTOCK_RDMA (auto, off, required) and PENSTOCK_RDMA_DEVICE say; it fails for another word.
Outcome<RdmaChoice> rdma_from_environment();

}  // namespace penstock::symm
