// What a check of the network has found, for people: the ways between nodes, why no better ones are
// taken, and what is to be mended.
#pragma once

#include "check/host_check.h"

#include <string>
#include <vector>

#include "penstock/json.h"
#include "penstock/probe.h"

namespace penstock::apps {

// As a node answers "check net". Foreign input: what is missing is left out.
struct NetDocument {
  struct Node {
    uint64_t node = 0;
    std::string name;
    std::optional<probe::MachineFacts> machine;
    std::string trouble;
  };
  struct Pair {
    uint64_t from = 0;
    uint64_t to = 0;
    std::vector<probe::WayFacts> ways;
    std::string trouble;
  };
  uint64_t asked = 0;  // the node that was asked
  std::vector<Node> nodes;
  std::vector<Pair> pairs;
};
NetDocument read_net_document(const Json& json);

// A row for each way of each pair; empty where there are none.
std::string table_of(const NetDocument& document);
// Why no better way is taken, each with the nodes of which it is true; empty where there is nothing
// to say.
std::string reasons_of(const NetDocument& document);
// Of machines, and of pairs that are not reached or not as they should be.
std::vector<Finding> findings_of(const NetDocument& document);
// Of one machine, whose area is named so.
std::vector<Finding> findings_of(const probe::MachineFacts& machine, const std::string& area);

}  // namespace penstock::apps
