#include "penstock/rails/devices.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace penstock::rails {
namespace {

constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// Of the card with that address; 32 where there is none any more.
uint8_t bits_of_ipv4(uint32_t address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return 32;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_netmask == nullptr) continue;
    if (one->ifa_addr->sa_family != AF_INET) continue;
    const auto* own = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    const auto* mask = reinterpret_cast<const sockaddr_in*>(one->ifa_netmask);
    if (own->sin_addr.s_addr != address) continue;
    return static_cast<uint8_t>(std::popcount(mask->sin_addr.s_addr));
  }
  return 32;
}

// RoCE's GIDs are IP addresses; InfiniBand's have the subnet in the upper half, as IPv6 has.
uint8_t subnet_bits_of(const verbs::PortFound& port) {
  if (!port.is_ethernet || std::memcmp(port.gid.data(), kMapped.data(), kMapped.size()) != 0) {
    return 64;
  }
  uint32_t address = 0;
  std::memcpy(&address, port.gid.data() + kMapped.size(), sizeof address);
  return static_cast<uint8_t>(8 * kMapped.size() + bits_of_ipv4(address));
}

class MachineDevices final : public Devices {
 public:
  std::vector<Device> all() override {
    std::vector<Device> devices;
    for (const verbs::PortFound& port : verbs::find_ports()) {
      if (!port.lack.empty()) continue;
      devices.push_back({port.device, port.port, port.gid, subnet_bits_of(port), port.numa_node});
    }
    return devices;
  }
  Outcome<std::unique_ptr<verbs::Provider>> open(const Device& device) override {
    return verbs::open_device({.name = device.name, .port = device.port});
  }
};

}  // namespace

bool reaches(const Device& device, const std::array<std::byte, 16>& gid) {
  const size_t whole = device.subnet_bits / 8;
  if (!std::equal(gid.begin(), gid.begin() + static_cast<ptrdiff_t>(whole), device.gid.begin())) {
    return false;
  }
  const int rest = device.subnet_bits % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<std::byte>(0xff << (8 - rest));
  return (gid[whole] & mask) == (device.gid[whole] & mask);
}

std::unique_ptr<Devices> machine_devices() {
  return std::make_unique<MachineDevices>();
}

std::string why_none() {
  const std::vector<verbs::PortFound> ports = verbs::find_ports();
  if (ports.empty()) return "this machine has no RDMA device";
  std::string reasons;
  for (const verbs::PortFound& port : ports) {
    if (port.lack.empty()) return {};
    reasons += fmt::format("{}{}, port {}: {}", reasons.empty() ? "" : "; ", port.device, port.port,
                           port.lack);
  }
  return reasons;
}

}  // namespace penstock::rails
