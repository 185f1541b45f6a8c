#include "penstock/rails/cards.h"

#include <algorithm>
#include <arpa/inet.h>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>

namespace penstock::rails {
namespace {

namespace fs = std::filesystem;

// Of a file with one; what is none, or is not told, as virtual devices do by -1: `otherwise`.
long number_in(const fs::path& file, long otherwise) {
  std::ifstream in(file);
  long number = otherwise;
  return in >> number ? number : otherwise;
}

// Of a device's folder, which may be a link.
DevicePlace place_of_device(const fs::path& device) {
  std::error_code failed;
  const fs::path path = fs::canonical(device, failed);
  if (failed) return {};
  return {path.string(), static_cast<int>(number_in(path / "numa_node", -1))};
}

std::string subnet_text(const CardAddress& one) {
  const uint32_t mask = one.subnet_bits == 0 ? 0 : ~uint32_t{0} << (32 - one.subnet_bits);
  const in_addr subnet{htonl(one.address & mask)};
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &subnet, text, sizeof text);
  return fmt::format("{}/{}", text, one.subnet_bits);
}

std::vector<CardAddress> machine_addresses() {
  ifaddrs* list = nullptr;
  std::vector<CardAddress> addresses;
  if (::getifaddrs(&list) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_netmask == nullptr) continue;
    if (one->ifa_addr->sa_family != AF_INET) continue;
    const auto* own = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    const auto* mask = reinterpret_cast<const sockaddr_in*>(one->ifa_netmask);
    addresses.push_back({one->ifa_name, ntohl(own->sin_addr.s_addr),
                         static_cast<uint8_t>(std::popcount(mask->sin_addr.s_addr))});
  }
  return addresses;
}

}  // namespace

std::vector<RailCard> find_cards(const std::string& sys, const std::vector<CardAddress>& addresses,
                                 const std::map<std::string, std::string>& named) {
  std::vector<RailCard> cards;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(fs::path(sys) / "class/net", failed)) {
    RailCard card;
    card.name = entry.path().filename().string();
    card.place = place_of_device(entry.path() / "device");
    if (card.place.path.empty()) continue;
    // Megabits; an interface that is down says -1, or nothing.
    card.bytes_per_second =
        static_cast<double>(std::max(number_in(entry.path() / "speed", 0), 0L)) * 1e6 / 8;
    const auto name = named.find(card.name);
    const auto address =
        std::find_if(addresses.begin(), addresses.end(),
                     [&](const CardAddress& one) { return one.name == card.name; });
    if (name != named.end()) {
      card.rail = name->second;
    } else if (address != addresses.end()) {
      card.rail = subnet_text(*address);
    }
    cards.push_back(std::move(card));
  }
  std::sort(cards.begin(), cards.end(),
            [](const RailCard& one, const RailCard& other) { return one.name < other.name; });
  return cards;
}

std::vector<RailCard> machine_cards() {
  const char* const named = std::getenv("PENSTOCK_RAILS");
  return find_cards("/sys", machine_addresses(), parse_rails(named != nullptr ? named : ""));
}

std::map<std::string, std::string> parse_rails(const std::string& text) {
  std::map<std::string, std::string> rails;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const size_t equals = one.find('=');
    if (equals != std::string::npos && equals > 0 && equals + 1 < one.size())
      rails[one.substr(0, equals)] = one.substr(equals + 1);
    begin = end + 1;
  }
  return rails;
}

DevicePlace place_of_pci(const std::string& sys, const std::string& address) {
  if (address.empty() || address.find('/') != std::string::npos) return {};
  return place_of_device(fs::path(sys) / "bus/pci/devices" / address);
}

}  // namespace penstock::rails
