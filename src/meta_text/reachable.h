// Whether every directory leads to the root.
#pragma once

#include <cstdint>

#include "penstock/engine.h"

namespace penstock::meta_text {

// Goes through the namespace in `kv` from the root down, in one transaction that reads, with memory
// for the directories on one path only. `directories`: how many there are with links, each of which
// has one entry. corrupt: some are in a circle apart from the root, or further down than a path may
// be.
Outcome<void> check_reachable(engine::Kv& kv, uint64_t directories);
// The same, within a transaction.
Outcome<void> check_reachable(engine::KvTransaction& transaction, uint64_t directories);

}  // namespace penstock::meta_text
