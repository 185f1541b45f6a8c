// The RDMA devices that a process may use.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "penstock/verbs.h"

namespace penstock::rails {

// One port of one of them.
struct Device {
  std::string name;
  uint8_t port = 1;
  std::array<std::byte, 16> gid{};
  uint8_t subnet_bits = 64;  // of the GID: ports whose first bits agree reach each other directly
  int numa_node = -1;        // -1: unknown
};

// Whether the two are in one subnet, as `device` has it.
bool reaches(const Device& device, const std::array<std::byte, 16>& gid);

// The seam to them. Thread safe.
class Devices {
 public:
  virtual ~Devices() = default;
  // Those that can be used, now or when their port is up.
  virtual std::vector<Device> all() = 0;
  virtual Outcome<std::unique_ptr<verbs::Provider>> open(const Device& device) = 0;
};

// Of this machine, by libibverbs.
std::unique_ptr<Devices> machine_devices();

// Why this machine has none that could be used, for people; empty where it has.
std::string why_none();

}  // namespace penstock::rails
