// The network cards of this machine, as the kernel shows them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/rails/gpu_rails.h"

namespace penstock::rails {

// An address of an interface, IPv4 as a number.
struct CardAddress {
  std::string name;  // of the interface
  uint32_t address = 0;
  uint8_t subnet_bits = 32;
};

// Interfaces that are devices (no bridges, tunnels, loopback), in the order of their names. Rails
// are `named` ones, else subnets. `sys`: "/sys", another one in tests.
std::vector<RailCard> find_cards(const std::string& sys, const std::vector<CardAddress>& addresses,
                                 const std::map<std::string, std::string>& named);
// Of this machine, with PENSTOCK_RAILS.
std::vector<RailCard> machine_cards();

// "eth0=a,eth1=b": rails by interface. What is none is left out.
std::map<std::string, std::string> parse_rails(const std::string& text);

// Where the PCI device of this address ("0000:17:00.0") stands.
DevicePlace place_of_pci(const std::string& sys, const std::string& address);

}  // namespace penstock::rails
