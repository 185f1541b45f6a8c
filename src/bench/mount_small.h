// Small things on a mount, each measured in a directory of ours and one of the reference in turn.
#pragma once

#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/bench.h"

namespace penstock::bench {

struct MountPair {
  std::string ours;
  std::string reference;  // libfuse's passthrough_ll, without its writeback option
};

// Adds lines for small writes, names and, where its program is installed, sqlite.
Outcome<void> measure_small_things(const BenchOptions& options, const MountPair& mounts,
                                   std::vector<BenchLine>* lines);

}  // namespace penstock::bench
