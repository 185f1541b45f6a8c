// Addresses by which other nodes reach this one, and the streams between nodes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::job {

// A TCP address as it stands in a unique id.
struct HostAddress {
  uint8_t family = 0;  // 4 or 6
  std::array<std::byte, 16> bytes{};
};

// Whether an interface is among `names`: how it begins, or several such with commas between. Behind
// '=' they are whole names, behind '^' those that are not meant ("^docker,lo"). Empty: all are.
bool is_interface_of(std::string_view names, std::string_view interface);

// Of all interfaces that are up, those first that others reach; of `interfaces` only, where some
// are named. Any thread.
std::vector<HostAddress> own_addresses(const std::string& interfaces);

// Sends at once, and finds out within some 10 s that the other side is not reached any more. A
// process that is stopped for so long counts as that, if more was sent to it than its kernel takes.
void set_up_stream(int socket);

}  // namespace penstock::job
