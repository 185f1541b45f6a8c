// The authority that signs for a cluster, and the one that follows it, as people are told of them
// (decision 0057).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/engine.h"

namespace penstock::cluster {

struct AuthorityStatus {
  struct One {
    std::string fingerprint;  // as the last part of a token
    engine::WallTime ends{};
  };
  One authority;
  bool ends_soon = false;   // within a year
  std::string lost;         // why its key is not there; empty: it is
  std::optional<One> next;  // while another follows it:
  bool signs = false;       // the next one does; else members learn to believe it
  bool is_crossed = false;  // the one before has signed it, for those who know only that one
  // Who has not said so far that it believes it, or has no certificate by it; and who was left
  // behind.
  std::vector<NodeId> waiting;
  std::vector<NodeId> left;
};

}  // namespace penstock::cluster
