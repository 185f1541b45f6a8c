// Which GPUs of a node reach one another's memory, as their PEs find out by mapping it (decision
// 0078).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/symm/device_access.h"

namespace penstock::symm {

// What a PE tells the others when it has mapped what it could. Bits are PEs of the group.
struct AccessFacts {
  uint64_t tried = 0;       // PEs of its node, itself among them
  uint64_t mapped = 0;      // of these, whose memory its GPU reaches
  uint64_t asks_hosts = 0;  // 1: where a GPU has no access, the hosts may be asked
};

// As PEs tell it: the facts, and why the first one of the node is not reached.
struct AccessTold {
  AccessFacts facts;
  std::string why;
};
std::vector<std::byte> encode(const AccessTold& told);
// Nothing: it is no such message.
std::optional<AccessTold> decode_access(std::span<const std::byte> bytes);

// From what all have told, in their order.
DeviceAccess access_of(std::span<const AccessTold> all);

// For people: the pairs, and the first reason. Empty where all have access.
std::string describe(const DeviceAccess& access, std::span<const AccessTold> all);

// Whether it is to be refused, and how: not_supported, where a PE has not asked for the hosts.
Outcome<void> check_access(const DeviceAccess& access, std::span<const AccessTold> all);

}  // namespace penstock::symm
