// The GPUs and network cards of a machine, as its PEs tell them to each other.
#pragma once

#include <vector>

#include "penstock/bench/symm.h"
#include "penstock/json.h"
#include "penstock/rails.h"

namespace penstock::bench {

// What this process sees: GPUs by their numbers here.
rails::RailNode own_rail_node();

// For other PEs, and back; foreign input: what is missing is left out.
Json json_of(const rails::RailNode& node);
rails::RailNode rail_node_from(const Json& json);

// A PE as rails see it: its node, the number of its GPU if it has one, and what it sees.
struct RailPe {
  uint32_t node = 0;
  std::optional<uint32_t> gpu;
  rails::RailNode sees;
};

// Both directions of each pair of PEs that are on two nodes and have GPUs.
std::vector<SymmRail> rails_between(const std::vector<RailPe>& pes,
                                    const std::vector<SymmPair>& pairs);

}  // namespace penstock::bench
