// RDMA devices of this machine, by libibverbs.
#pragma once

#include <array>
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

// One port of one device, as it is now.
struct PortFound {
  std::string device;
  uint8_t port = 1;
  bool is_ethernet = false;  // RoCE; else InfiniBand
  std::array<std::byte, 16> gid{};
  uint8_t mtu = 0;  // 128 << mtu bytes
  int numa_node = -1;
  bool is_active = false;
  std::string lack;  // why it can never be used; empty: it can, when it is active
};
// Of all devices. Opens each for a moment.
std::vector<PortFound> find_ports();

// A share of it for one loop. not_found: no such device, or none at all; not_supported: it lacks
// what this transport needs, or this program was built without libibverbs. The message says which.
Outcome<std::unique_ptr<Provider>> open_device(const DeviceChoice& choice);

}  // namespace penstock::verbs
