// Reading and verifying everything that a node stores, and naming what is damaged.
#pragma once

#include "node.h"

#include <functional>

namespace penstock::agent {

// Blocks until every target is through; see Agent::scrub().
ScrubReport scrub_node(Node& node, const ScrubProgress& progress);

}  // namespace penstock::agent
