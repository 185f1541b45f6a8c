// What a process of a cluster keeps durably about itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/cluster/invitation.h"
#include "penstock/cluster/roles.h"

namespace penstock::cluster {

// Of a node's directory: the file `cluster` in it.
struct KeptNode {
  controller::Uuid cluster;
  NodeId node;                      // 0: it was not let in yet
  uint8_t roles = 0;                // what parse_roles() takes
  std::vector<std::string> listen;  // what parse_listen() takes, for each card; 1 at least
  std::string controller;           // HOST:PORT of the node with the controller
  std::vector<std::string> others;  // where it may be as well, once another machine has its roles
  std::string rack;                 // empty: none
};

// Of a target: the file `identity` beside its chunks, which goes where its disk goes.
struct KeptTarget {
  controller::Uuid uuid;
  controller::Uuid cluster;
  // Of the directory that the target is part of; zeros: an earlier release did not say.
  controller::Uuid node;
  controller::Incarnation incarnation;  // 0: it never served
};

inline constexpr const char* kKeptNodeName = "cluster";
inline constexpr const char* kKeptTargetName = "identity";

// Format: docs/formats/store-directory.md. Foreign input: nothing if there is no such file; fails,
// with a reason for people that names the file, if it is damaged or cannot be read.
Outcome<std::optional<KeptNode>> read_kept_node(const std::string& directory);
Outcome<std::optional<KeptTarget>> read_kept_target(const std::string& directory);
// Durable when it returns.
Outcome<void> keep(const std::string& directory, const KeptNode& node);
Outcome<void> keep(const std::string& directory, const KeptTarget& target);

}  // namespace penstock::cluster
