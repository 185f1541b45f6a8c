// Where a PE listens for those of other nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <sys/socket.h>
#include <vector>

#include "penstock/base.h"
#include "penstock/job.h"

namespace penstock::symm {

struct FarAddress {
  uint16_t port = 0;
  std::vector<job::HostAddress> hosts;  // tried in this order
};

// As PEs tell each other. Nothing for bytes that are none.
std::vector<std::byte> encode(const FarAddress& address);
std::optional<FarAddress> decode_far_address(Bytes bytes);

struct FarListener {
  UniqueFd socket;
  FarAddress address;
};

// At a free port: of loopback only where all PEs are on one machine, else of all interfaces whose
// names begin with `interface`.
Outcome<FarListener> listen_for_pes(bool is_one_machine, const std::string& interface);

struct SocketName {
  sockaddr_storage address{};
  socklen_t length = 0;
};
SocketName name_of(const job::HostAddress& host, uint16_t port);
std::string text_of(const FarAddress& address);

// What tells machines, and networks of one machine, apart.
uint64_t machine_name();

}  // namespace penstock::symm
