// RDMA devices of this machine, by libibverbs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/verbs/provider.h"

namespace penstock::verbs {

struct DeviceChoice {
  std::string name;  // empty: the first that can be used
  uint8_t port = 1;  // from 1
  int gid = -1;      // index in the port's table; -1: RoCE version 2 with an IPv4 address, if any
  uint8_t mtu_max = 5;  // 128 << mtu
};

// Names of all devices; empty where there are none, or no library for them.
std::vector<std::string> device_names();

// A share of it for one loop. not_found: no such device, or none at all; not_supported: it lacks
// what this transport needs, or this program was built without libibverbs. The message says which.
Outcome<std::unique_ptr<Provider>> open_device(const DeviceChoice& choice);

}  // namespace penstock::verbs
