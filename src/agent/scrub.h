// Reading and verifying everything that a node stores, and naming what is damaged.
#pragma once

#include "node.h"

#include <functional>

namespace penstock::agent {

// Blocks until every target is through. `progress` is called on the calling thread's behalf, from
// the shards' threads, one at a time.
ScrubReport scrub_node(Node& node, const std::function<void(uint64_t verified_bytes)>& progress);

}  // namespace penstock::agent
