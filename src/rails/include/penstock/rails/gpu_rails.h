// By which GPU and which network card of a node bytes of a GPU's memory go to a GPU of another node
// (decision 0079).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/engine.h"

namespace penstock::rails {

// Where a PCI device stands: its place in the kernel's tree, through all bridges
// ("/sys/devices/pci0000:00/0000:00:01.0/0000:17:00.0"), and its NUMA node. Empty and -1: unknown.
struct DevicePlace {
  std::string path = {};
  int numa_node = -1;
};

struct RailGpu {
  DevicePlace place;
  uint64_t nvlinks = 0;  // bit i: NVLink leads to GPU i of the node
};

struct RailCard {
  std::string name;
  DevicePlace place;
  double bytes_per_second = 0;  // 0: unknown
  std::string rail;             // the same as that of cards which it reaches directly; empty: none
};

struct RailNode {
  std::vector<RailGpu> gpus;
  std::vector<RailCard> cards;
};

// What the links of a way cost.
struct RailCosts {
  double pcie_bytes_per_second;
  double nvlink_bytes_per_second;
  double seconds_per_copy;  // of a copy to another GPU, beside its bytes
  // Of a card's rate, what is left of it: where GPU and card are behind different ports of a
  // processor, or behind different processors; and between rails.
  double share_through_processor;
  double share_behind_processor;
  double share_between_rails;
};
// From what routes know of copies.
RailCosts rail_costs(const engine::CopyCosts& costs);

struct GpuRail {
  uint32_t gpu = 0;              // of this node; another one than the source: over NVLink first
  std::optional<uint32_t> card;  // of this node; none: there is none
  double bytes_per_second = 0;   // of the narrowest link; 0: there is no card
  std::string why;               // for people
};

// `from`: a GPU of this node; `to`: one of the other node, of which only the card nearest to it is
// looked at.
GpuRail choose_rail(const RailNode& here, uint32_t from, const RailNode& there, uint32_t to,
                    const RailCosts& costs);

// How near two devices are to each other.
enum class Nearness : uint8_t { same_bridge, same_processor, apart };
Nearness nearness(const DevicePlace& one, const DevicePlace& other);

}  // namespace penstock::rails
