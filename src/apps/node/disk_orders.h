// What administrators order of one disk of a node.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "penstock/agent.h"
#include "penstock/json.h"

namespace penstock::apps {

// The node, as far as its disks go.
struct NodeWithDisks {
  cluster::Participant* participant = nullptr;  // null: it is alone
  std::vector<agent::DiskStatus> disks = {};
  std::function<Outcome<void>(const std::string& path)> take_off = {};
};

// Answers "drain" and "remove" that name a disk; nothing if the request is neither.
std::optional<Json> answer_about_disk(const NodeWithDisks& node, const Json& request);

}  // namespace penstock::apps
