// Addresses by which other nodes reach this one, and the streams between nodes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::job {

// A TCP address as it stands in a unique id.
struct HostAddress {
  uint8_t family = 0;  // 4 or 6
  std::array<std::byte, 16> bytes{};
};

// Of all interfaces that are up, those first that others reach; of `interface` only, where one is
// given (names that begin so). Any thread.
std::vector<HostAddress> own_addresses(const std::string& interface);

// Sends at once, and finds out within some 10 s that the other side is not reached any more. A
// process that is stopped for so long counts as that, if more was sent to it than its kernel takes.
void set_up_stream(int socket);

}  // namespace penstock::job
