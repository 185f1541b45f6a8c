// What is in the 128 bytes of a unique id (docs/formats/job.md).
#pragma once

#include "frame.h"
#include "sockets.h"

#include <optional>
#include <vector>

#include "penstock/job/unique_id.h"

namespace penstock::job {

struct Invitation {
  std::vector<HostAddress> addresses;  // at most kAddressesMax
  uint16_t port = 0;
  Secret secret{};
  std::array<std::byte, 8> name{};  // of sockets of nodes: everybody on them can see it
};

inline constexpr size_t kAddressesMax = 5;

UniqueId encode(const Invitation& invitation);
// Nothing for bytes that are none, or of another version.
std::optional<Invitation> decode(const UniqueId& id);

}  // namespace penstock::job
